//! A lexer for as much of C++ as finding declarations takes.

/// A piece of source. All pieces together are the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// White space, comments, and line continuations.
    Blank,
    /// An identifier or a keyword.
    Word,
    /// A preprocessor line, with its continuation lines.
    Directive,
    /// A number, a string or a character.
    Literal,
    /// One punctuation character.
    Mark,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token<'a> {
    pub kind: Kind,
    pub text: &'a str,
    /// Line of the first character, from 1.
    pub line: usize,
}

/// Splits ASCII source into tokens.
pub fn tokens(source: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let (mut at, mut line, mut line_start) = (0, 1, true);
    while at < source.len() {
        let (kind, length) = next(&source[at..], line_start);
        let text = &source[at..at + length];
        tokens.push(Token { kind, text, line });
        let newlines = text.matches('\n').count();
        line_start = if kind == Kind::Blank {
            line_start || newlines > 0
        } else {
            kind == Kind::Directive
        };
        line += newlines;
        at += length;
    }
    tokens
}

fn next(rest: &str, line_start: bool) -> (Kind, usize) {
    let bytes = rest.as_bytes();
    let span = |accept: fn(u8) -> bool| {
        bytes
            .iter()
            .position(|&b| !accept(b))
            .unwrap_or(bytes.len())
    };
    let is_word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    match bytes[0] {
        b if b.is_ascii_whitespace() => (Kind::Blank, span(|b| b.is_ascii_whitespace())),
        b'/' if rest.starts_with("//") => (Kind::Blank, rest.find('\n').unwrap_or(rest.len())),
        b'/' if rest.starts_with("/*") => (
            Kind::Blank,
            rest.find("*/").map_or(rest.len(), |end| end + 2),
        ),
        b'\\' if rest.starts_with("\\\n") => (Kind::Blank, 2),
        b'#' if line_start => (Kind::Directive, directive(rest)),
        quote @ (b'"' | b'\'') => (Kind::Literal, quoted(bytes, quote)),
        b if b.is_ascii_digit() || (b == b'.' && bytes.get(1).is_some_and(u8::is_ascii_digit)) => {
            (Kind::Literal, number(bytes))
        }
        b if is_word(b) => (Kind::Word, span(|b| b.is_ascii_alphanumeric() || b == b'_')),
        _ => (Kind::Mark, rest.chars().next().map_or(1, char::len_utf8)),
    }
}

fn directive(rest: &str) -> usize {
    let mut end = 0;
    for line in rest.split_inclusive('\n') {
        end += line.len();
        if !line.trim_end_matches(['\n', '\r']).ends_with('\\') {
            break;
        }
    }
    end
}

/// Digits, letters, points, signs after an exponent's letter, and quotes between digits.
fn number(bytes: &[u8]) -> usize {
    let hexadecimal = bytes.starts_with(b"0x") || bytes.starts_with(b"0X");
    let exponent = |b: u8| matches!(b, b'p' | b'P') || (!hexadecimal && matches!(b, b'e' | b'E'));
    let mut at = 1;
    while at < bytes.len() {
        let inside = match bytes[at] {
            b'+' | b'-' => exponent(bytes[at - 1]),
            b'\'' => bytes.get(at + 1).is_some_and(u8::is_ascii_alphanumeric),
            b => b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.'),
        };
        if !inside {
            break;
        }
        at += 1;
    }
    at
}

fn quoted(bytes: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b if b == quote => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(source: &str) -> Vec<(Kind, &str)> {
        tokens(source).iter().map(|t| (t.kind, t.text)).collect()
    }

    #[test]
    fn pieces_add_up_and_know_their_lines() {
        let source = "#define A \\\n 1\nint x = 'a'; // int\n/* y\n */ \"s;\\\"\" # 0x1.8p-2f";
        let all = tokens(source);
        assert_eq!(all.iter().map(|t| t.text).collect::<String>(), source);
        let line = |text: &str| all.iter().find(|t| t.text == text).map(|t| t.line);
        assert_eq!(line("x"), Some(3));
        assert_eq!(line("\"s;\\\"\""), Some(5));
    }

    #[test]
    fn comments_literals_and_directives_are_whole() {
        use Kind::{Blank, Directive, Literal, Mark, Word};
        assert_eq!(
            kinds("a//;\n;"),
            [(Word, "a"), (Blank, "//;"), (Blank, "\n"), (Mark, ";")]
        );
        assert_eq!(kinds("';'"), [(Literal, "';'")]);
        assert_eq!(
            kinds(" #if x\ny"),
            [(Blank, " "), (Directive, "#if x\n"), (Word, "y")]
        );
        assert_eq!(kinds("/*"), [(Blank, "/*")]);
        assert_eq!(
            kinds(".5e-3+1'0"),
            [(Literal, ".5e-3"), (Mark, "+"), (Literal, "1'0")]
        );
        assert_eq!(
            kinds("0xe+1"),
            [(Literal, "0xe"), (Mark, "+"), (Literal, "1")]
        );
    }
}
