//! Little-endian primitives and metadata values, never reading or allocating past the file.

use std::io::Read;
use std::path::{Path, PathBuf};

use crate::error::{ModelError, Result};

/// A metadata value.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Any of the integer types.
    Integer(i64),
    /// Either floating-point type.
    Float(f64),
    /// A truth value.
    Bool(bool),
    /// UTF-8 text.
    Text(String),
    /// A list of texts.
    Texts(Vec<String>),
    /// A list of numbers or truth values.
    Numbers(Vec<f64>),
}

impl Value {
    /// The value as a whole number, or a list of equal whole numbers as that number (some writers
    /// give per-layer lists).
    #[must_use]
    pub fn integer(&self) -> Option<i64> {
        match self {
            Self::Integer(value) => Some(*value),
            Self::Numbers(values) => {
                let first = *values.first()?;
                (values
                    .iter()
                    .all(|value| value.to_bits() == first.to_bits())
                    && first.fract() == 0.0)
                    .then_some(first as i64)
            }
            _ => None,
        }
    }

    /// The value as a real number.
    #[must_use]
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Integer(value) => Some(*value as f64),
            Self::Float(value) => Some(*value),
            _ => None,
        }
    }

    /// What sort of value it is, for error messages.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Integer(_) => "a whole number",
            Self::Float(_) => "a real number",
            Self::Bool(_) => "a truth value",
            Self::Text(_) => "text",
            Self::Texts(_) => "a list of texts",
            Self::Numbers(_) => "a list of numbers",
        }
    }
}

/// Reads a file from the front, and knows how much of it is left.
pub(super) struct Reader<R> {
    source: R,
    path: PathBuf,
    position: u64,
    length: u64,
}

impl<R: Read> Reader<R> {
    pub(super) fn new(source: R, path: &Path, length: u64) -> Self {
        Self {
            source,
            path: path.to_owned(),
            position: 0,
            length,
        }
    }

    pub(super) fn position(&self) -> u64 {
        self.position
    }

    /// Fails unless `count` items of at least `size` bytes can follow.
    pub(super) fn expect_room(&self, what: &str, count: u64, size: u64) -> Result<()> {
        let needed = count.saturating_mul(size).saturating_add(self.position);
        if needed > self.length {
            return Err(ModelError::Truncated {
                path: self.path.clone(),
                what: what.to_owned(),
                needed,
                found: self.length,
            });
        }
        Ok(())
    }

    fn bytes<const N: usize>(&mut self, what: &str) -> Result<[u8; N]> {
        self.expect_room(what, 1, N as u64)?;
        let mut bytes = [0; N];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<()> {
        self.source
            .read_exact(bytes)
            .map_err(|source| ModelError::Io {
                path: self.path.clone(),
                source,
            })?;
        self.position += bytes.len() as u64;
        Ok(())
    }

    pub(super) fn magic(&mut self) -> Result<[u8; 4]> {
        self.bytes("magic number")
    }

    pub(super) fn u32(&mut self, what: &str) -> Result<u32> {
        Ok(u32::from_le_bytes(self.bytes(what)?))
    }

    pub(super) fn u64(&mut self, what: &str) -> Result<u64> {
        Ok(u64::from_le_bytes(self.bytes(what)?))
    }

    pub(super) fn text(&mut self, what: &str) -> Result<String> {
        let length = self.u64(what)?;
        self.expect_room(what, length, 1)?;
        let mut bytes = vec![0; length as usize];
        self.fill(&mut bytes)?;
        String::from_utf8(bytes).map_err(|_| self.malformed(what, "not UTF-8", "UTF-8 text"))
    }

    pub(super) fn value(&mut self, key: &str) -> Result<Value> {
        let code = self.u32(key)?;
        match code {
            8 => self.text(key).map(Value::Text),
            9 => self.list(key),
            _ => self.scalar(key, code),
        }
    }

    /// The alignment of tensor data. MLX's loader reads four bytes whatever type the entry states, so
    /// that only an entry of four bytes means the same to it.
    pub(super) fn alignment(&mut self, key: &str) -> Result<u64> {
        let code = self.u32(key)?;
        if code != 4 {
            let what = format!("type of metadata `{key}`");
            return Err(self.malformed(&what, &code.to_string(), "4 (uint32)"));
        }
        match self.u32(key)? {
            value if value > 0 && value % 8 == 0 => Ok(u64::from(value)),
            value => Err(self.malformed(key, &value.to_string(), "a multiple of 8")),
        }
    }

    fn list(&mut self, key: &str) -> Result<Value> {
        let code = self.u32(key)?;
        let count = self.u64(key)?;
        // A text takes at least its 8-byte length.
        let size = if code == 8 {
            8
        } else {
            self.scalar_size(key, code)?
        };
        self.expect_room(key, count, size)?;
        if code == 8 {
            return (0..count)
                .map(|_| self.text(key))
                .collect::<Result<_>>()
                .map(Value::Texts);
        }
        let numbers = (0..count).map(|_| {
            self.scalar(key, code).map(|value| match value {
                Value::Integer(value) => value as f64,
                Value::Float(value) => value,
                Value::Bool(value) => f64::from(u8::from(value)),
                _ => unreachable!("scalar() returns numbers and truth values only"),
            })
        });
        numbers.collect::<Result<_>>().map(Value::Numbers)
    }

    fn scalar(&mut self, key: &str, code: u32) -> Result<Value> {
        Ok(match code {
            0 => Value::Integer(i64::from(self.bytes::<1>(key)?[0])),
            1 => Value::Integer(i64::from(i8::from_le_bytes(self.bytes(key)?))),
            2 => Value::Integer(i64::from(u16::from_le_bytes(self.bytes(key)?))),
            3 => Value::Integer(i64::from(i16::from_le_bytes(self.bytes(key)?))),
            4 => Value::Integer(i64::from(self.u32(key)?)),
            5 => Value::Integer(i64::from(i32::from_le_bytes(self.bytes(key)?))),
            6 => Value::Float(f64::from(f32::from_le_bytes(self.bytes(key)?))),
            7 => Value::Bool(self.bytes::<1>(key)?[0] != 0),
            10 => Value::Integer(i64::try_from(self.u64(key)?).unwrap_or(i64::MAX)),
            11 => Value::Integer(i64::from_le_bytes(self.bytes(key)?)),
            12 => Value::Float(f64::from_le_bytes(self.bytes(key)?)),
            _ => return Err(self.unknown_type(key, code)),
        })
    }

    fn scalar_size(&self, key: &str, code: u32) -> Result<u64> {
        match code {
            0 | 1 | 7 => Ok(1),
            2 | 3 => Ok(2),
            4..=6 => Ok(4),
            10..=12 => Ok(8),
            _ => Err(self.unknown_type(key, code)),
        }
    }

    fn unknown_type(&self, key: &str, code: u32) -> ModelError {
        self.malformed(
            &format!("type of metadata `{key}`"),
            &code.to_string(),
            "0 to 12, or a list of scalars or texts",
        )
    }

    pub(super) fn malformed(&self, what: &str, found: &str, expected: &str) -> ModelError {
        ModelError::Malformed {
            path: self.path.clone(),
            format: "GGUF",
            what: what.to_owned(),
            found: found.to_owned(),
            expected: expected.to_owned(),
        }
    }
}
