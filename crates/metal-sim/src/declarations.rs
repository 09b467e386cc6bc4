//! Rewrites the declarations of threadgroup variables.
//!
//! `threadgroup` names both a storage class (`threadgroup float tile[64];`, one array for all
//! threads of the group) and the address space of a pointee (`threadgroup float* p`, a variable of
//! the thread's own). The second needs nothing on a host. The first cannot be expressed by a macro,
//! since only the declarator tells the two apart, so it becomes
//!
//! ```text
//! typedef float metal_sim_type_0 [64]; metal_sim_type_0& tile = metal_sim::shared<metal_sim_type_0>(0);
//! ```
//!
//! on the same line, where `shared` gives every thread of a group the same poisoned memory.

use std::fmt::Write as _;

use crate::{
    abi::MAX_SHARED,
    lexer::{Kind, Token, tokens},
};

/// A declaration that cannot be rewritten.
#[derive(Debug, PartialEq, Eq)]
pub struct Problem {
    /// Line of the body, from 1.
    pub line: usize,
    pub text: String,
}

/// A body whose threadgroup variables are references into the group's memory.
#[derive(Debug, PartialEq, Eq)]
pub struct Rewritten {
    pub text: String,
    /// Names of the variables, by slot.
    pub names: Vec<String>,
}

/// Rewrites `body`. Object-like macros of `header` or `body` that stand for `threadgroup` alone
/// count as that word.
pub fn rewrite(header: &str, body: &str) -> Result<Rewritten, Problem> {
    let aliases: Vec<&str> = header
        .lines()
        .chain(body.lines())
        .filter_map(alias)
        .collect();
    let all = tokens(body);
    let mut out = Rewritten {
        text: String::with_capacity(body.len() + 256),
        names: Vec::new(),
    };
    let mut statement_start = true;
    let mut at = 0;
    while at < all.len() {
        let token = all[at];
        let keyword = token.kind == Kind::Word
            && (token.text == "threadgroup" || aliases.contains(&token.text));
        if keyword && statement_start {
            let length = all[at..]
                .iter()
                .position(|t| t.text == ";" && t.kind == Kind::Mark)
                .unwrap_or(all.len() - at);
            let statement = &all[at..at + length];
            if let Some(declaration) = Declaration::parse(statement)? {
                declaration.emit(statement, &mut out)?;
                at += length;
                // The terminating semicolon is the last declaration's own.
                continue;
            }
        }
        out.text.push_str(token.text);
        statement_start = match token.kind {
            Kind::Blank => statement_start,
            Kind::Directive => true,
            Kind::Mark => matches!(token.text, ";" | "{" | "}" | ":"),
            Kind::Word | Kind::Literal => false,
        };
        at += 1;
    }
    Ok(out)
}

/// The name that a line defines as `threadgroup`, if it does.
fn alias(line: &str) -> Option<&str> {
    let mut words = line.trim_start().strip_prefix('#')?.split_whitespace();
    match (words.next(), words.next(), words.next(), words.next()) {
        (Some("define"), Some(name), Some("threadgroup"), None) => Some(name),
        _ => None,
    }
}

struct Declaration {
    element: String,
    /// Name and array extents of each variable.
    variables: Vec<(String, String)>,
}

impl Declaration {
    /// Parses a statement that begins with the keyword and lacks its semicolon. `None` when what it
    /// declares is a pointer or a reference, which belongs to the thread.
    fn parse(statement: &[Token<'_>]) -> Result<Option<Self>, Problem> {
        let problem = |text: &str| Problem {
            line: statement[0].line,
            text: text.to_owned(),
        };
        let rest: Vec<Token<'_>> = skip_alignment(
            statement[1..]
                .iter()
                .copied()
                .filter(|t| t.kind != Kind::Blank)
                .collect(),
        );
        let mut angle = 0;
        let mut declarator = rest.len();
        for (i, token) in rest.iter().enumerate() {
            match token.text {
                "<" => angle += 1,
                ">" => angle -= 1,
                _ if angle > 0 => {}
                "*" | "&" | "(" => return Ok(None),
                "[" | "," | "=" | "{" => {
                    declarator = i;
                    break;
                }
                _ => {}
            }
        }
        if declarator < 2 || rest[declarator - 1].kind != Kind::Word {
            return Err(problem("a threadgroup declaration needs a type and a name"));
        }
        let element = joined(&rest[..declarator - 1]);
        let mut variables = Vec::new();
        for variable in split_commas(&rest[declarator - 1..]) {
            let Some((name, extents)) = variable
                .split_first()
                .filter(|(name, _)| name.kind == Kind::Word)
            else {
                return Err(problem(
                    "a threadgroup declaration cannot mix variables with pointers",
                ));
            };
            if !extents.is_empty() && extents[0].text != "[" {
                return Err(problem("a threadgroup variable cannot have an initialiser"));
            }
            variables.push((name.text.to_owned(), joined(extents)));
        }
        Ok(Some(Self { element, variables }))
    }

    fn emit(&self, statement: &[Token<'_>], out: &mut Rewritten) -> Result<(), Problem> {
        for (i, (name, extents)) in self.variables.iter().enumerate() {
            let slot = out.names.len();
            if slot == MAX_SHARED {
                let text = format!("more than {MAX_SHARED} threadgroup variables");
                return Err(Problem {
                    line: statement[0].line,
                    text,
                });
            }
            let separator = if i == 0 { "" } else { "; " };
            let alias = format!("metal_sim_type_{slot}");
            // Writing to a String cannot fail.
            let _ = write!(
                out.text,
                "{separator}typedef {} {alias} {extents}; {alias}& {name} = metal_sim::shared<{alias}>({slot})",
                self.element
            );
            out.names.push(name.clone());
        }
        // Later lines keep their numbers.
        let newlines = statement.iter().map(|t| t.text.matches('\n').count()).sum();
        out.text.extend(std::iter::repeat_n('\n', newlines));
        Ok(())
    }
}

/// Drops a leading `alignas(...)`: every variable is aligned to 64 bytes anyway.
fn skip_alignment(tokens: Vec<Token<'_>>) -> Vec<Token<'_>> {
    if tokens.first().is_none_or(|t| t.text != "alignas") {
        return tokens;
    }
    let mut depth = 0;
    let end = tokens.iter().skip(1).position(|t| {
        depth += nesting(t.text);
        depth == 0
    });
    end.map_or(Vec::new(), |end| tokens[end + 2..].to_vec())
}

fn nesting(text: &str) -> i32 {
    match text {
        "(" | "[" | "{" => 1,
        ")" | "]" | "}" => -1,
        _ => 0,
    }
}

fn split_commas<'t, 's>(tokens: &'t [Token<'s>]) -> Vec<&'t [Token<'s>]> {
    let mut depth = 0;
    tokens
        .split(|t| {
            depth += nesting(t.text);
            depth == 0 && t.text == ","
        })
        .collect()
}

/// Token texts with the blanks that keep words apart.
fn joined(tokens: &[Token<'_>]) -> String {
    let mut text = String::new();
    for (i, token) in tokens.iter().enumerate() {
        let word = |t: &Token<'_>| matches!(t.kind, Kind::Word | Kind::Literal);
        if i > 0 && word(token) && word(&tokens[i - 1]) {
            text.push(' ');
        }
        text.push_str(token.text);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(source: &str) -> String {
        rewrite("", source).unwrap().text
    }

    fn variable(slot: usize, element: &str, name: &str, extents: &str) -> String {
        let alias = format!("metal_sim_type_{slot}");
        format!(
            "typedef {element} {alias} {extents}; {alias}& {name} = metal_sim::shared<{alias}>({slot});"
        )
    }

    #[test]
    fn arrays_and_single_values_become_shared() {
        assert_eq!(
            body("threadgroup float a[4];"),
            variable(0, "float", "a", "[4]")
        );
        assert_eq!(
            body("threadgroup uint count;"),
            variable(0, "uint", "count", "")
        );
        assert_eq!(
            body("{ threadgroup T a[N * 2][M]; }"),
            format!("{{ {} }}", variable(0, "T", "a", "[N*2][M]"))
        );
        let two = format!(
            "{} {}",
            variable(0, "unsigned int", "a", "[2]"),
            variable(1, "unsigned int", "b", "")
        );
        assert_eq!(body("threadgroup unsigned int a[2], b;"), two);
    }

    #[test]
    fn template_types_and_conditions_in_extents() {
        assert_eq!(
            body("threadgroup vec<T, 4> a[2];"),
            variable(0, "vec<T,4>", "a", "[2]")
        );
        assert_eq!(
            body("threadgroup float a[A < B ? A : B];"),
            variable(0, "float", "a", "[A<B?A:B]")
        );
        assert_eq!(
            body("threadgroup metal::vec<metal::vec<T, 2>, 2> a;"),
            variable(0, "metal::vec<metal::vec<T,2>,2>", "a", "")
        );
        assert_eq!(
            body("threadgroup alignas(16) half a[8];"),
            variable(0, "half", "a", "[8]")
        );
    }

    #[test]
    fn pointers_references_and_casts_stay() {
        for source in [
            "threadgroup float* p = a + 4;",
            "threadgroup float *p;",
            "threadgroup float& r = a[0];",
            "threadgroup float (&r)[4] = a;",
            "threadgroup const vec<T, 4>* p = (threadgroup const vec<T, 4>*)a;",
            "f((threadgroup float*)a);",
            "auto g = [&](threadgroup float* p, uint n) { return p[n]; };",
            "const threadgroup float* p = a;",
        ] {
            assert_eq!(body(source), source);
        }
    }

    #[test]
    fn comments_strings_and_directives_do_not_count() {
        for source in [
            "// threadgroup float a[4];\n",
            "/* ; threadgroup float a[4]; */",
            "#define X threadgroup float a[4];\n",
        ] {
            assert_eq!(body(source), source);
        }
        let after = body("#if 1\nthreadgroup float a[4];\n#endif\n");
        assert_eq!(
            after,
            format!("#if 1\n{}\n#endif\n", variable(0, "float", "a", "[4]"))
        );
    }

    #[test]
    fn lines_keep_their_numbers() {
        let source = "uint i;\nthreadgroup float a[4], // first\n  b[8];\nint here;";
        let line = |text: &str| text.lines().position(|l| l.contains("here"));
        assert_eq!(line(&body(source)), line(source));
    }

    #[test]
    fn macros_that_stand_for_the_word_count_as_it() {
        let rewritten = rewrite(
            "#define SHARED threadgroup\n",
            "SHARED float a[4];\nSHARED float* p = a;",
        )
        .unwrap();
        assert_eq!(
            rewritten.text,
            format!("{}\nSHARED float* p = a;", variable(0, "float", "a", "[4]"))
        );
        assert_eq!(rewritten.names, ["a"]);
    }

    #[test]
    fn what_metal_refuses_is_refused() {
        let line = |source: &str| rewrite("", source).unwrap_err().line;
        assert_eq!(line("\nthreadgroup float a = 0;"), 2);
        assert_eq!(line("threadgroup float a[2], *p;"), 1);
        assert_eq!(line("threadgroup a;"), 1);
        assert_eq!(line("threadgroup float"), 1);
    }
}
