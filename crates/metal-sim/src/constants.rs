//! Makes Metal's reading of a text explicit where C++ reads it otherwise: floating constants
//! without a suffix are floats, those with `h` and `bf` are half and bfloat, and Metal's own
//! headers are there without being included.

use crate::lexer::{Kind, tokens};

/// The text for a C++ compiler. Lines keep their numbers.
pub fn translate(source: &str) -> String {
    let mut out = String::with_capacity(source.len() + 64);
    for token in tokens(source) {
        match token.kind {
            Kind::Directive => directive(token.text, &mut out),
            Kind::Literal => literal(token.text, &mut out),
            _ => out.push_str(token.text),
        }
    }
    out
}

fn directive(text: &str, out: &mut String) {
    let (mark, rest) = text.split_at(1);
    let words = rest.trim_start();
    if !words.starts_with("include") {
        out.push_str(mark);
        out.push_str(&translate(rest));
    } else if words["include".len()..].trim_start().starts_with("<metal") {
        out.extend(text.chars().filter(|&c| c == '\n'));
    } else {
        out.push_str(text);
    }
}

fn literal(text: &str, out: &mut String) {
    if !is_floating(text) {
        out.push_str(text);
    } else if let Some(number) = text.strip_suffix("bf").or_else(|| text.strip_suffix("BF")) {
        out.extend(["bfloat(", number, "f)"]);
    } else if let Some(number) = text.strip_suffix(['h', 'H']) {
        out.extend(["half(", number, "f)"]);
    } else {
        out.push_str(text);
        if text.ends_with(|c: char| c.is_ascii_digit() || c == '.') {
            out.push('f');
        }
    }
}

/// A number with a point or an exponent.
fn is_floating(literal: &str) -> bool {
    let hexadecimal = literal.starts_with("0x") || literal.starts_with("0X");
    let signs: &[char] = if hexadecimal {
        &['p', 'P']
    } else {
        &['.', 'e', 'E']
    };
    literal.starts_with(|c: char| c.is_ascii_digit() || c == '.') && literal.contains(signs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bare_floating_constants_become_floats() {
        for (source, expected) in [
            ("x = 1.0;", "x = 1.0f;"),
            ("1. + .5", "1.f + .5f"),
            ("1e5 1e-5 1.5E+3", "1e5f 1e-5f 1.5E+3f"),
            ("0x1p-3 0x1.8p4", "0x1p-3f 0x1.8p4f"),
            ("#define A 2.0\n1.0", "#define A 2.0f\n1.0f"),
            ("v.x1 + a[0].y", "v.x1 + a[0].y"),
            ("f(1.0)-2.0", "f(1.0f)-2.0f"),
        ] {
            assert_eq!(translate(source), expected);
        }
    }

    #[test]
    fn suffixes_of_the_narrow_types_become_conversions() {
        assert_eq!(translate("1.5h + 2e-3H"), "half(1.5f) + half(2e-3f)");
        assert_eq!(
            translate("1.5bf * 0x1p3BF"),
            "bfloat(1.5f) * bfloat(0x1p3f)"
        );
    }

    #[test]
    fn everything_else_stays() {
        for source in [
            "1.0f 3e4F 0xbf",
            "1 0x1F 0xep1f 10u 0b11 1'000",
            "\"1.0\" '.'",
            "// 1.0",
            "x1e5",
            "#include \"v1.0.h\"\n",
        ] {
            assert_eq!(translate(source), source);
        }
    }

    #[test]
    fn metal_headers_are_built_in() {
        assert_eq!(
            translate("#include <metal_stdlib>\n# include  <metal_simdgroup>\nint x;"),
            "\n\nint x;"
        );
    }
}
