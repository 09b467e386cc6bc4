//! Compiles translation units to shared libraries, cached on disk by content and in the process by
//! text.

use std::{
    collections::HashMap,
    fmt::Write as _,
    fs, io,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{Arc, Mutex, PoisonError},
};

use libloading::Library;
use sha2::{Digest, Sha256};

use crate::{
    SimError,
    abi::{CURRENT_NAME, Current, ENTRY_NAME, Entry},
    source,
};

/// Contraction is off so that only an explicit fma is fused; aliasing rules are off because bodies
/// read buffers through pointers to other types, which Metal allows. Warnings belong to whoever
/// lints the body.
const FLAGS: &[&str] = &[
    "-x",
    "c++",
    "-std=gnu++20",
    "-O2",
    "-fPIC",
    "-shared",
    "-fvisibility=hidden",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fno-strict-aliasing",
    "-fsigned-char",
    "-w",
];
/// A loaded kernel.
pub struct Module {
    pub entry: Entry,
    pub current: Current,
    /// Keeps the code mapped.
    _library: Library,
}

/// A module that may still have to be compiled; locked meanwhile.
type Slot = Arc<Mutex<Option<Arc<Module>>>>;

/// The compiler, its cache, and what has been loaded.
pub struct Compiler {
    command: String,
    flags: Vec<String>,
    /// Describes the compiler and the target's features: all its predefined macros.
    identity: Vec<u8>,
    cache: PathBuf,
    prelude: String,
    loaded: Mutex<HashMap<String, Slot>>,
}

impl Compiler {
    /// Identifies the compiler `command` (a program and perhaps arguments) and makes the cache
    /// directory.
    pub fn new(command: &str, cache: &Path) -> Result<Self, SimError> {
        fs::create_dir_all(cache).map_err(|source| SimError::Cache {
            path: cache.to_owned(),
            source,
        })?;
        let mut flags: Vec<String> = FLAGS.iter().map(ToString::to_string).collect();
        // Not every compiler knows this machine; the plain target is slower but right.
        let identity = match predefined_macros(command, &["-march=native"]) {
            Ok(macros) => {
                flags.push("-march=native".to_owned());
                macros
            }
            Err(_) => predefined_macros(command, &[])?,
        };
        Ok(Self {
            command: command.to_owned(),
            flags,
            identity,
            cache: cache.to_owned(),
            prelude: source::prelude(),
            loaded: Mutex::default(),
        })
    }

    /// The module of the translation unit that is the prelude and `text`.
    pub fn module(&self, kernel: &str, text: &str) -> Result<Arc<Module>, SimError> {
        let slot = {
            let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
            match loaded.get(text) {
                Some(slot) => Arc::clone(slot),
                None => Arc::clone(loaded.entry(text.to_owned()).or_default()),
            }
        };
        // Held while compiling: a second caller for the same text waits, others go on.
        let mut module = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(module) = &*module {
            return Ok(Arc::clone(module));
        }
        let path = self.cache.join(format!("{}.so", self.key(text)));
        if !path.exists() {
            self.compile(kernel, text, &path)?;
        }
        let fresh = Arc::new(load(&path)?);
        *module = Some(Arc::clone(&fresh));
        Ok(fresh)
    }

    fn key(&self, text: &str) -> String {
        let mut hash = Sha256::new();
        for part in [
            self.command.as_bytes(),
            &self.identity,
            self.prelude.as_bytes(),
            text.as_bytes(),
        ] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        for flag in &self.flags {
            hash.update(flag);
            hash.update([0]);
        }
        let mut name = String::with_capacity(64);
        for byte in hash.finalize() {
            // Writing to a String cannot fail.
            let _ = write!(name, "{byte:02x}");
        }
        name
    }

    /// Compiles beside the destination and renames, so that no other process ever sees half a file.
    fn compile(&self, kernel: &str, text: &str, path: &Path) -> Result<(), SimError> {
        let cache_error = |source| SimError::Cache {
            path: self.cache.clone(),
            source,
        };
        let work = tempfile::tempdir_in(&self.cache).map_err(cache_error)?;
        let (input, output) = (
            work.path().join("kernel.cpp"),
            work.path().join("kernel.so"),
        );
        fs::write(&input, format!("{}{text}", self.prelude)).map_err(cache_error)?;
        let result = command(&self.command)
            .args(&self.flags)
            .arg("-o")
            .arg(&output)
            .arg(&input)
            .output()
            .map_err(|error| unusable(&self.command, &error.to_string()))?;
        if !result.status.success() {
            let log = String::from_utf8_lossy(&result.stderr).into_owned();
            return Err(SimError::Compile {
                kernel: kernel.to_owned(),
                log,
            });
        }
        fs::rename(&output, path).map_err(|source| SimError::Cache {
            path: path.to_owned(),
            source,
        })
    }
}

/// `$CXX` may hold arguments beside the program.
fn command(words: &str) -> Command {
    let mut words = words.split_whitespace();
    let mut command = Command::new(words.next().unwrap_or("c++"));
    command.args(words);
    command
}

fn unusable(compiler: &str, reason: &str) -> SimError {
    SimError::Compiler {
        compiler: compiler.to_owned(),
        reason: reason.to_owned(),
    }
}

fn predefined_macros(compiler: &str, flags: &[&str]) -> Result<Vec<u8>, SimError> {
    let result = command(compiler)
        .args(flags)
        .args(["-x", "c++", "-std=gnu++20", "-dM", "-E", "-"])
        .stdin(Stdio::null())
        .output()
        .map_err(|error: io::Error| unusable(compiler, &error.to_string()))?;
    if result.status.success() && !result.stdout.is_empty() {
        return Ok(result.stdout);
    }
    Err(unusable(
        compiler,
        String::from_utf8_lossy(&result.stderr).trim(),
    ))
}

fn load(path: &Path) -> Result<Module, SimError> {
    let failed = |error: libloading::Error| SimError::Load {
        path: path.to_owned(),
        reason: error.to_string(),
    };
    // SAFETY: the library was compiled from generated source, which has no initialisers that run
    // code.
    let library = unsafe { Library::new(path) }.map_err(failed)?;
    // SAFETY: the generated source defines these symbols with these types.
    let (entry, current) = unsafe {
        let entry = *library
            .get::<Entry>(ENTRY_NAME.as_bytes())
            .map_err(failed)?;
        (
            entry,
            *library
                .get::<Current>(CURRENT_NAME.as_bytes())
                .map_err(failed)?,
        )
    };
    Ok(Module {
        entry,
        current,
        _library: library,
    })
}
