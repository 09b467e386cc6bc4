//! Finished tensors on disk, and the record of what they belong to.

use std::collections::HashMap;
use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use safetensors::tensor::Metadata;
use safetensors::{Dtype, SafeTensors, View};
use serde_json::{Value, json};
use trellis_codec::Axis;

use super::{Mode, QuantizeOptions};
use crate::error::{ModelError, Result};
use crate::hf::read_json_if_present;

/// Version of the layout of a partial output.
const VERSION: u32 = 1;
const MANIFEST: &str = "manifest.json";

/// Squared error and squared norm of what was coded; 0 for what was copied.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Distortion {
    pub(super) error: f64,
    pub(super) power: f64,
}

/// A tensor as a file stores it.
pub(super) struct StoredTensor {
    pub(super) name: String,
    pub(super) dtype: Dtype,
    pub(super) shape: Vec<usize>,
    pub(super) bytes: Vec<u8>,
}

impl View for &StoredTensor {
    fn dtype(&self) -> Dtype {
        self.dtype
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn data(&self) -> std::borrow::Cow<'_, [u8]> {
        (&self.bytes[..]).into()
    }

    fn data_len(&self) -> usize {
        self.bytes.len()
    }
}

/// The tensors of one layer.
pub(super) struct Part {
    pub(super) tensors: Vec<StoredTensor>,
    pub(super) distortion: Distortion,
    /// Whether error feedback grew past its limit, so that the codes are plain ones.
    pub(super) tripped: bool,
}

/// The folder `OUT.partial`, held by this process alone: a manifest, and a safetensors file a part.
pub(super) struct PartStore {
    path: PathBuf,
    /// Held until the store is dropped; the system lets go of it when a process dies.
    _lock: File,
}

impl PartStore {
    /// Opens the partial output of `output`, a new one or one that `manifest` describes.
    pub(super) fn open(output: &Path, manifest: &Value) -> Result<Self> {
        let mut name = output.as_os_str().to_owned();
        name.push(".partial");
        let path = PathBuf::from(name);
        let is_new = !path.is_dir();
        fs::create_dir_all(&path).map_err(|source| unwritable(&path, source))?;
        let lock_path = path.join("lock");
        let lock = File::create(&lock_path).map_err(|source| unwritable(&lock_path, source))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(ModelError::Busy { path }),
            Err(TryLockError::Error(source)) => return Err(unwritable(&lock_path, source)),
        }
        let store = Self { path, _lock: lock };
        store.check_manifest(is_new, manifest)?;
        Ok(store)
    }

    fn check_manifest(&self, is_new: bool, manifest: &Value) -> Result<()> {
        let path = self.path.join(MANIFEST);
        let known = read_json_if_present(&path)?;
        // A run that died before it wrote its manifest has left nothing else.
        if is_new || known.is_null() && self.is_empty()? {
            let text = format!("{manifest:#}\n");
            return write_whole(&path, |file| file.write_all(text.as_bytes()));
        }
        match first_difference("", &known, manifest) {
            None => Ok(()),
            Some((what, found, expected)) => Err(ModelError::Resume {
                path: self.path.clone(),
                what,
                found,
                expected,
            }),
        }
    }

    fn is_empty(&self) -> Result<bool> {
        let io = |source| ModelError::Io {
            path: self.path.clone(),
            source,
        };
        for entry in fs::read_dir(&self.path).map_err(io)? {
            let name = entry.map_err(io)?.file_name();
            if name != "lock" && !name.to_string_lossy().starts_with(MANIFEST) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// File of the part of this name.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.path.join(format!("{name}.safetensors"))
    }

    pub(super) fn contains(&self, name: &str) -> bool {
        self.file(name).is_file()
    }

    /// Writes a part, whole or not at all.
    pub(super) fn write(&self, name: &str, part: &Part) -> Result<()> {
        let Distortion { error, power } = part.distortion;
        let info = HashMap::from([
            ("error".to_owned(), error.to_string()),
            ("power".to_owned(), power.to_string()),
            ("tripped".to_owned(), part.tripped.to_string()),
        ]);
        let tensors = part.tensors.iter().map(|tensor| (&tensor.name, tensor));
        let path = self.file(name);
        let bytes = safetensors::serialize(tensors, Some(info)).map_err(|error| {
            ModelError::invalid(format!("part `{name}`"), error, "tensors for safetensors")
        })?;
        write_whole(&path, |file| file.write_all(&bytes))
    }

    /// The data of a part's tensors, and its header.
    pub(super) fn read(&self, name: &str) -> Result<(Vec<u8>, Metadata)> {
        let path = self.file(name);
        let mut bytes = fs::read(&path).map_err(|source| ModelError::Io {
            path: path.clone(),
            source,
        })?;
        let malformed = |found: String| ModelError::Malformed {
            path: path.clone(),
            format: "safetensors",
            what: "part".into(),
            found,
            expected: "one that this program wrote; delete it to have it made anew".into(),
        };
        let (header, metadata) =
            SafeTensors::read_metadata(&bytes).map_err(|error| malformed(error.to_string()))?;
        // The header's length comes before it.
        let data = header + size_of::<u64>();
        if bytes.len() != data + metadata.data_len() {
            return Err(malformed(format!("{} bytes", bytes.len())));
        }
        bytes.drain(..data);
        Ok((bytes, metadata))
    }
}

/// The distortion that a part's header notes.
pub(super) fn distortion(metadata: &Metadata) -> Distortion {
    let number = |key: &str| {
        let text = metadata.metadata().as_ref()?.get(key)?;
        text.parse().ok()
    };
    Distortion {
        error: number("error").unwrap_or(0.0),
        power: number("power").unwrap_or(0.0),
    }
}

/// Whether a part's header notes that error feedback grew past its limit.
pub(super) fn tripped(metadata: &Metadata) -> bool {
    let note = metadata
        .metadata()
        .as_ref()
        .and_then(|notes| notes.get("tripped"));
    note.is_some_and(|note| note == "true")
}

/// What a partial output must agree on to be gone on with.
pub(super) fn manifest(input: &Path, options: &QuantizeOptions) -> Result<Value> {
    let mode = match &options.mode {
        Mode::Affine { group_size } => json!({"name": "affine", "group size": group_size}),
        Mode::Trellis {
            down_axis,
            interleave,
            rotation,
            calibration,
        } => json!({
            "name": "trellis",
            "down axis": if *down_axis == Axis::Output { "out" } else { "in" },
            "interleave": interleave,
            "rotation": rotation,
            "calibration": calibration.as_deref().map(calibration_identity),
        }),
    };
    Ok(json!({
        "version": VERSION,
        "mode": mode,
        "bits": options.bits,
        "bits for": options.bits_for,
        "input": input_identity(input)?,
    }))
}

/// Size and digest of the text that activations come from.
fn calibration_identity(windows: &[Vec<u32>]) -> Value {
    // FNV-1a of 64 bits over the tokens, and over each window's length before them.
    let numbers = windows.iter().flat_map(|window| {
        let length = window.len() as u32;
        std::iter::once(length).chain(window.iter().copied())
    });
    let digest = numbers
        .flat_map(u32::to_le_bytes)
        .fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)
        });
    json!({
        "tokens": windows.iter().map(Vec::len).sum::<usize>(),
        "digest": format!("{digest:016x}"),
    })
}

/// Absolute path, and sizes and times of the model's files.
fn input_identity(input: &Path) -> Result<Value> {
    let io = |source| ModelError::Io {
        path: input.into(),
        source,
    };
    let path = fs::canonicalize(input).map_err(io)?;
    let mut files = Vec::new();
    if path.is_dir() {
        for entry in fs::read_dir(&path).map_err(io)? {
            let file = entry.map_err(io)?.path();
            let extension = file.extension().and_then(|extension| extension.to_str());
            if matches!(extension, Some("safetensors" | "json")) && file.is_file() {
                files.push(file);
            }
        }
        files.sort();
    } else {
        files.push(path.clone());
    }
    let mut identity = serde_json::Map::new();
    identity.insert("path".into(), json!(path.to_string_lossy()));
    for file in files {
        let metadata = fs::metadata(&file).map_err(io)?;
        let modified = metadata.modified().map_err(io)?;
        let since = modified.duration_since(UNIX_EPOCH).unwrap_or_default();
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let state = json!({"bytes": metadata.len(), "modified": since.as_nanos().to_string()});
        identity.insert(name.into_owned(), state);
    }
    Ok(identity.into())
}

/// Where two documents differ first, and their values there.
fn first_difference(at: &str, known: &Value, asked: &Value) -> Option<(String, String, String)> {
    if let (Value::Object(known), Value::Object(asked)) = (known, asked) {
        let extra = known.keys().filter(|key| !asked.contains_key(*key));
        return asked.keys().chain(extra).find_map(|key| {
            let at = if at.is_empty() {
                key.clone()
            } else {
                format!("{at}, {key}")
            };
            let value = |object: &serde_json::Map<String, Value>| {
                object.get(key).cloned().unwrap_or_default()
            };
            first_difference(&at, &value(known), &value(asked))
        });
    }
    (known != asked).then(|| (at.to_owned(), known.to_string(), asked.to_string()))
}

pub(super) fn unwritable(path: &Path, source: io::Error) -> ModelError {
    ModelError::Write {
        path: path.into(),
        source,
    }
}

/// Writes a file under another name, and gives it its own when all of it is on disk.
pub(super) fn write_whole(
    path: &Path,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let unfinished = PathBuf::from(name);
    let finished = File::create(&unfinished).and_then(|mut file| {
        write(&mut file)?;
        file.sync_all()?;
        fs::rename(&unfinished, path)
    });
    finished.map_err(|source| {
        // Frees the space; that it cannot be removed either says nothing new.
        let _ = fs::remove_file(&unfinished);
        unwritable(path, source)
    })
}
