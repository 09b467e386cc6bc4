//! Printing results: a closed pipe or a full disk is an error, where `println!` would panic.

use std::io::{self, Write};

/// Writes text to standard output at once.
pub fn write(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Whether an error is that nobody reads any more, as under `| head`.
pub fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let causes = error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>());
    causes
        .into_iter()
        .any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}

/// Prints formatted text, or returns the error of the enclosing function.
macro_rules! out {
    ($($argument:tt)*) => {
        $crate::output::write(&format!($($argument)*))?
    };
}

/// As [`out`], with a line's end.
macro_rules! outln {
    ($($argument:tt)*) => {
        $crate::output::write(&(format!($($argument)*) + "\n"))?
    };
}

pub(crate) use {out, outln};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_pipe_is_known_below_its_context() {
        let error = anyhow::Error::from(io::Error::from(io::ErrorKind::BrokenPipe));
        assert!(is_closed_pipe(&error.context("printing")));
        assert!(!is_closed_pipe(&anyhow::anyhow!("something else")));
    }
}
