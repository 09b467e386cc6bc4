//! What the commands do where their output or their numbers cannot be used.

use std::fs::File;
use std::process::{Command, Output, Stdio};

fn mlxk(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mlxk"));
    command.args(arguments).env_remove("MLXK_BACKEND");
    command
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_closed_pipe_ends_quietly() {
    for arguments in [
        &["plan"][..],
        &["plan", "--json"],
        &["doctor"],
        &["doctor", "--json"],
    ] {
        let mut child = mlxk(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(stderr(&output), "", "{arguments:?}");
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_an_error() {
    for arguments in [
        &["plan"][..],
        &["doctor", "--json"],
        &["--backend", "cpu", "verify", "--quick"],
    ] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let output = mlxk(arguments).stdout(full).output().unwrap();
        assert!(
            stderr(&output).starts_with("mlxk: No space left"),
            "{}",
            stderr(&output)
        );
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
    }
}

#[test]
fn numbers_that_no_run_can_meet_are_usage_errors() {
    for (arguments, part) in [
        (
            &["kl", "--model", "m", "--max-mean-kl=nan"][..],
            "at least 0",
        ),
        (&["kl", "--model", "m", "--max-kl=-1"], "at least 0"),
        (&["kl", "--model", "m", "--min-top1", "2"], "from 0 to 1"),
    ] {
        let output = mlxk(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(stderr(&output).contains(part), "{}", stderr(&output));
    }
    for (arguments, part) in [
        (&["bench", "2147483647x64"][..], "elements"),
        (&["bench", "64x64", "--rows", "2147483647"], "elements"),
        (
            &["bench", "64x64", "--rounds", "18446744073709551615"],
            "--rounds",
        ),
        (&["bench", "64x65"], "group size"),
    ] {
        let output = mlxk(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert!(stderr(&output).contains(part), "{}", stderr(&output));
    }
}
