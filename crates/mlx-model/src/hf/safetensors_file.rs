//! One safetensors file: header checked here, tensors through MLX's lazy loader.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use mlx_rs::Array;
use safetensors::Dtype;
use safetensors::tensor::Metadata;

use crate::error::{ModelError, Result};

/// Bytes of the little-endian header length at the front of the file.
const LENGTH_BYTES: u64 = 8;
/// The format's own limit on a header.
const MAX_HEADER_BYTES: u64 = 100_000_000;

/// Reads and checks a file's header: the header lies within the file, the tensors fill the rest of
/// it without gaps, and MLX can load every element type.
pub(super) fn read_header(path: &Path) -> Result<Metadata> {
    if !path.is_file() {
        return Err(ModelError::Missing {
            path: path.into(),
            expected: "safetensors file",
        });
    }
    let io = |source| ModelError::Io {
        path: path.into(),
        source,
    };
    let mut file = File::open(path).map_err(io)?;
    let found = file.metadata().map_err(io)?.len();
    let truncated = |what: &str, needed: u64| ModelError::Truncated {
        path: path.into(),
        what: what.into(),
        needed,
        found,
    };
    let malformed = |what: &str, found: String, expected: &str| ModelError::Malformed {
        path: path.into(),
        format: "safetensors",
        what: what.into(),
        found,
        expected: expected.into(),
    };

    if found < LENGTH_BYTES {
        return Err(truncated("header length", LENGTH_BYTES));
    }
    let mut length = [0; LENGTH_BYTES as usize];
    file.read_exact(&mut length).map_err(io)?;
    let header_bytes = u64::from_le_bytes(length);
    let data = header_bytes.saturating_add(LENGTH_BYTES);
    if data > found {
        return Err(truncated("header", data));
    }
    if header_bytes > MAX_HEADER_BYTES {
        return Err(malformed(
            "header length",
            header_bytes.to_string(),
            "at most 100 MB",
        ));
    }
    let mut header = vec![0; header_bytes as usize];
    file.read_exact(&mut header).map_err(io)?;
    let metadata: Metadata = serde_json::from_slice(&header)
        .map_err(|error| malformed("header", error.to_string(), "a JSON object of tensors"))?;

    let needed = data.saturating_add(metadata.data_len() as u64);
    if needed > found {
        return Err(truncated("tensor data", needed));
    }
    if needed < found {
        return Err(malformed(
            "file size",
            found.to_string(),
            &format!("{needed} bytes"),
        ));
    }
    check_tensors(&metadata, &malformed)?;
    Ok(metadata)
}

fn check_tensors(
    metadata: &Metadata,
    malformed: &impl Fn(&str, String, &str) -> ModelError,
) -> Result<()> {
    for (name, tensor) in metadata.tensors() {
        if !matches!(
            tensor.dtype,
            Dtype::BOOL
                | Dtype::U8
                | Dtype::I8
                | Dtype::U16
                | Dtype::I16
                | Dtype::U32
                | Dtype::I32
                | Dtype::U64
                | Dtype::I64
                | Dtype::F16
                | Dtype::BF16
                | Dtype::F32
        ) {
            return Err(malformed(
                &format!("dtype of tensor `{name}`"),
                format!("{:?}", tensor.dtype),
                "one that MLX has",
            ));
        }
        if tensor
            .shape
            .iter()
            .any(|&size| i32::try_from(size).is_err())
        {
            return Err(malformed(
                &format!("shape of tensor `{name}`"),
                format!("{:?}", tensor.shape),
                "dimensions below 2^31",
            ));
        }
    }
    Ok(())
}

/// Loads the tensors of a file whose header has been checked.
pub(super) fn load(path: &Path) -> Result<HashMap<String, Array>> {
    Array::load_safetensors(path).map_err(|error| match error {
        mlx_rs::error::IoError::Exception(exception) => ModelError::Mlx(exception),
        other => ModelError::Malformed {
            path: path.into(),
            format: "safetensors",
            what: "file".into(),
            found: other.to_string(),
            expected: "a file that MLX loads".into(),
        },
    })
}
