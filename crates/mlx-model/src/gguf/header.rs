//! The header of a GGUF file (versions 2 and 3, little-endian): metadata and tensor directory.
//!
//! Layout, after <https://github.com/ggml-org/ggml/blob/master/docs/gguf.md>: magic, version,
//! tensor count, metadata count; key, type and value of each metadata entry; name, dimensions
//! (fastest first), type and offset of each tensor; padding to the alignment; tensor data.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use super::reader::{Reader, Value};
use crate::error::{ModelError, Result};

/// Element types that this crate loads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TensorType {
    /// 32-bit floats.
    F32,
    /// 16-bit floats.
    F16,
    /// Blocks of 32 4-bit weights and a float16 scale.
    Q4_0,
    /// Blocks of 32 4-bit weights, a float16 scale and a float16 minimum.
    Q4_1,
    /// Blocks of 32 8-bit weights and a float16 scale.
    Q8_0,
}

impl TensorType {
    fn from_code(code: u32) -> Option<Self> {
        match code {
            0 => Some(Self::F32),
            1 => Some(Self::F16),
            2 => Some(Self::Q4_0),
            3 => Some(Self::Q4_1),
            8 => Some(Self::Q8_0),
            _ => None,
        }
    }

    /// Elements and bytes of one block.
    fn block(self) -> (u64, u64) {
        match self {
            Self::F32 => (1, 4),
            Self::F16 => (1, 2),
            Self::Q4_0 => (32, 18),
            Self::Q4_1 => (32, 20),
            Self::Q8_0 => (32, 34),
        }
    }
}

/// One entry of the tensor directory.
#[derive(Debug, Clone)]
pub struct TensorInfo {
    /// Dimensions, slowest first, as MLX counts them.
    pub shape: Vec<u64>,
    /// Element type.
    pub kind: TensorType,
    /// Bytes from the start of the tensor data.
    offset: u64,
    /// Size in bytes.
    bytes: u64,
}

/// A checked header: every tensor lies within the file.
#[derive(Debug, Clone)]
pub struct Header {
    path: PathBuf,
    metadata: HashMap<String, Value>,
    tensors: BTreeMap<String, TensorInfo>,
}

const MAGIC: [u8; 4] = *b"GGUF";
const ALIGNMENT_KEY: &str = "general.alignment";
const DEFAULT_ALIGNMENT: u64 = 32;
const MAX_DIMENSIONS: u32 = 4;
/// A metadata entry takes at least a key length, a type and a byte; a tensor entry a name length,
/// a dimension count, one dimension, a type and an offset.
const MIN_METADATA_BYTES: u64 = 8 + 4 + 1;
const MIN_TENSOR_BYTES: u64 = 8 + 4 + 8 + 4 + 8;

impl Header {
    /// Reads and checks the header of the file at `path`.
    ///
    /// # Errors
    /// [`ModelError::Missing`], [`ModelError::Truncated`] or [`ModelError::Malformed`].
    pub fn read(path: &Path) -> Result<Self> {
        if !path.is_file() {
            return Err(ModelError::Missing {
                path: path.into(),
                expected: "GGUF file",
            });
        }
        let io = |source| ModelError::Io {
            path: path.into(),
            source,
        };
        let file = File::open(path).map_err(io)?;
        let length = file.metadata().map_err(io)?.len();
        let mut reader = Reader::new(BufReader::new(file), path, length);

        let magic = reader.magic()?;
        if magic != MAGIC {
            return Err(reader.malformed("magic number", &format!("{magic:02x?}"), "`GGUF`"));
        }
        let version = reader.u32("version")?;
        if !(2..=3).contains(&version) {
            return Err(reader.malformed("version", &version.to_string(), "2 or 3"));
        }
        let tensor_count = reader.u64("tensor count")?;
        let metadata_count = reader.u64("metadata count")?;
        reader.expect_room("tensor directory", tensor_count, MIN_TENSOR_BYTES)?;
        reader.expect_room("metadata", metadata_count, MIN_METADATA_BYTES)?;

        let (metadata, alignment) = read_metadata(&mut reader, metadata_count)?;
        let tensors = read_tensors(&mut reader, tensor_count)?;
        let data = reader.position().next_multiple_of(alignment);
        let header = Self {
            path: path.to_owned(),
            metadata,
            tensors,
        };
        header.check_extents(data, alignment, length)?;
        Ok(header)
    }

    fn check_extents(&self, data: u64, alignment: u64, length: u64) -> Result<()> {
        for (name, tensor) in &self.tensors {
            if tensor.offset % alignment != 0 {
                return Err(ModelError::Malformed {
                    path: self.path.clone(),
                    format: "GGUF",
                    what: format!("offset of tensor `{name}`"),
                    found: tensor.offset.to_string(),
                    expected: format!("a multiple of {alignment}"),
                });
            }
            let needed = data
                .saturating_add(tensor.offset)
                .saturating_add(tensor.bytes);
            if needed > length {
                return Err(ModelError::Truncated {
                    path: self.path.clone(),
                    what: format!("tensor `{name}`"),
                    needed,
                    found: length,
                });
            }
        }
        Ok(())
    }

    /// The file that the header is of.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A tensor's directory entry.
    #[must_use]
    pub fn tensor(&self, name: &str) -> Option<&TensorInfo> {
        self.tensors.get(name)
    }

    /// A metadata value.
    #[must_use]
    pub fn value(&self, key: &str) -> Option<&Value> {
        self.metadata.get(key)
    }

    /// A metadata value that is text.
    #[must_use]
    pub fn text(&self, key: &str) -> Option<&str> {
        match self.value(key)? {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// A metadata value that is a whole number.
    #[must_use]
    pub fn integer(&self, key: &str) -> Option<i64> {
        self.value(key)?.integer()
    }

    /// A metadata value that is text and has to be there.
    ///
    /// # Errors
    /// [`ModelError::MissingKey`] if it is absent or of another type.
    pub fn required_text(&self, key: &str) -> Result<&str> {
        self.text(key).ok_or_else(|| ModelError::MissingKey {
            path: self.path.clone(),
            key: key.into(),
        })
    }

    /// A metadata value that is a list of texts and has to be there.
    ///
    /// # Errors
    /// [`ModelError::MissingKey`] if it is absent or of another type.
    pub fn required_texts(&self, key: &str) -> Result<&[String]> {
        match self.value(key) {
            Some(Value::Texts(texts)) => Ok(texts),
            _ => Err(ModelError::MissingKey {
                path: self.path.clone(),
                key: key.into(),
            }),
        }
    }
}

/// Reads every metadata entry, and the alignment of tensor data if one is among them.
fn read_metadata<R: Read>(
    reader: &mut Reader<R>,
    count: u64,
) -> Result<(HashMap<String, Value>, u64)> {
    let mut metadata = HashMap::new();
    let mut alignment = DEFAULT_ALIGNMENT;
    for _ in 0..count {
        let key = reader.text("metadata key")?;
        let value = if key == ALIGNMENT_KEY {
            alignment = reader.alignment(&key)?;
            Value::Integer(alignment as i64)
        } else {
            reader.value(&key)?
        };
        if metadata.contains_key(&key) {
            let what = format!("metadata `{key}`");
            return Err(reader.malformed(&what, "listed twice", "unique keys"));
        }
        metadata.insert(key, value);
    }
    Ok((metadata, alignment))
}

fn read_tensors<R: Read>(
    reader: &mut Reader<R>,
    count: u64,
) -> Result<BTreeMap<String, TensorInfo>> {
    let mut tensors = BTreeMap::new();
    for _ in 0..count {
        let (name, info) = tensor_info(reader)?;
        if tensors.contains_key(&name) {
            let what = format!("tensor `{name}`");
            return Err(reader.malformed(&what, "listed twice", "unique names"));
        }
        tensors.insert(name, info);
    }
    Ok(tensors)
}

fn tensor_info<R: Read>(reader: &mut Reader<R>) -> Result<(String, TensorInfo)> {
    let name = reader.text("tensor name")?;
    let what = |property: &str| format!("{property} of tensor `{name}`");
    let dimensions = reader.u32("dimension count")?;
    if !(1..=MAX_DIMENSIONS).contains(&dimensions) {
        let found = dimensions.to_string();
        return Err(reader.malformed(&what("dimension count"), &found, "1 to 4"));
    }
    let mut shape = (0..dimensions)
        .map(|_| reader.u64("dimension"))
        .collect::<Result<Vec<u64>>>()?;
    shape.reverse();
    let code = reader.u32("tensor type")?;
    let kind = TensorType::from_code(code).ok_or_else(|| {
        reader.malformed(
            &what("type"),
            &code.to_string(),
            "F32, F16, Q4_0, Q4_1 or Q8_0",
        )
    })?;
    let offset = reader.u64("tensor offset")?;

    let (block, block_bytes) = kind.block();
    let row = *shape.last().unwrap_or(&0);
    if row % block != 0 {
        let expected = format!("a multiple of {block} for {kind:?}");
        return Err(reader.malformed(&what("row length"), &row.to_string(), &expected));
    }
    let elements = shape
        .iter()
        .try_fold(1u64, |product, &size| product.checked_mul(size))
        .filter(|&elements| elements > 0 && i32::try_from(elements).is_ok())
        .ok_or_else(|| {
            let expected = "1 to 2^31 - 1 elements";
            reader.malformed(&what("shape"), &format!("{shape:?}"), expected)
        })?;
    let bytes = elements / block * block_bytes;
    Ok((
        name,
        TensorInfo {
            shape,
            kind,
            offset,
            bytes,
        },
    ))
}
