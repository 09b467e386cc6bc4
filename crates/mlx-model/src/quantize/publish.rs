//! The output folder: put together in the partial output, then renamed.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;

use safetensors::Dtype;
use safetensors::tensor::Metadata;
use serde_json::{Map, Value, json};

use super::parts::{PartStore, unwritable, write_whole};
use super::recipe::{Recipe, Task};
use super::source::{REST, Source};
use crate::config::RESIDUAL_ROTATION;
use crate::error::{ModelError, Result};
use crate::tokenizer;

/// Writes `config.json`, the tokenizer's files and `model.safetensors`, and gives the folder its
/// name. The partial output is gone afterwards.
pub(super) fn publish(
    store: &PartStore,
    source: &Source,
    tasks: &[Task],
    output: &Path,
) -> Result<()> {
    let folder = store.path().join("folder");
    if folder.is_dir() {
        fs::remove_dir_all(&folder).map_err(|error| unwritable(&folder, error))?;
    }
    fs::create_dir(&folder).map_err(|error| unwritable(&folder, error))?;
    let headers = headers(store, tasks)?;
    write_tensors(store, &headers, &folder.join("model.safetensors"))?;
    let config = config(source, tasks, &headers)?;
    let mut files = vec![(
        "config.json".to_owned(),
        format!("{config:#}\n").into_bytes(),
    )];
    files.extend(tokenizer::files(source.path())?);
    for (name, bytes) in files {
        write_whole(&folder.join(name), |file| file.write_all(&bytes))?;
    }
    fs::rename(&folder, output).map_err(|error| unwritable(output, error))?;
    fs::remove_dir_all(store.path()).map_err(|error| unwritable(store.path(), error))
}

type Headers = Vec<(String, Metadata)>;

/// The header of every part, in order.
fn headers(store: &PartStore, tasks: &[Task]) -> Result<Headers> {
    let names = tasks.iter().map(|task| task.path.as_str()).chain([REST]);
    names
        .map(|name| Ok((name.to_owned(), store.read(name)?.1)))
        .collect()
}

/// Copies all parts into one file, one at a time in memory.
fn write_tensors(store: &PartStore, headers: &Headers, path: &Path) -> Result<()> {
    let mut entries = BTreeMap::new();
    let mut offset = 0;
    for (_, metadata) in headers {
        for (name, tensor) in metadata.tensors() {
            let (start, end) = tensor.data_offsets;
            let offsets = [offset + start, offset + end];
            let entry =
                json!({"dtype": tensor.dtype, "shape": tensor.shape, "data_offsets": offsets});
            entries.insert(name, entry);
        }
        offset += metadata.data_len();
    }
    entries.insert("__metadata__".into(), json!({"format": "mlx"}));
    let mut header = json!(entries).to_string();
    // The data begins at a multiple of 8 bytes.
    while header.len() % 8 != 0 {
        header.push(' ');
    }
    let mut failed = None;
    let written = write_whole(path, |file| {
        file.write_all(&(header.len() as u64).to_le_bytes())?;
        file.write_all(header.as_bytes())?;
        for (name, _) in headers {
            match store.read(name) {
                Ok((bytes, _)) => file.write_all(&bytes)?,
                Err(error) => {
                    failed = Some(error);
                    return Err(std::io::ErrorKind::InvalidData.into());
                }
            }
        }
        Ok(())
    });
    match failed {
        Some(error) => Err(error),
        None => written,
    }
}

/// The source's configuration with the quantization of the output.
fn config(source: &Source, tasks: &[Task], headers: &Headers) -> Result<Value> {
    let mut config = source.config_json()?;
    let mut table = Map::new();
    // What MLX assumes of layers without an entry; here each has one.
    table.insert("group_size".into(), json!(64));
    table.insert("bits".into(), json!(8));
    table.insert("mode".into(), json!("affine"));
    for (task, (_, metadata)) in tasks.iter().zip(headers) {
        table.insert(task.path.clone(), entry(task, metadata));
    }
    let fields = config
        .as_object_mut()
        .ok_or_else(|| ModelError::invalid("config.json", "another value", "an object"))?;
    fields.remove("quantization_config");
    fields.insert("quantization".into(), table.into());
    if source.config().residual_rotation {
        fields.insert(RESIDUAL_ROTATION.into(), json!(true));
    }
    Ok(config)
}

fn entry(task: &Task, metadata: &Metadata) -> Value {
    let affine =
        |bits, group_size| json!({"bits": bits, "group_size": group_size, "mode": "affine"});
    match task.recipe {
        Recipe::Affine(scheme) => affine(scheme.bits as usize, scheme.group_size as usize),
        Recipe::Trellis {
            format,
            axis,
            layout,
        } => trellis_codec::ModuleEntry::new(format, axis, layout).to_json(),
        Recipe::Keep => {
            let columns = task.shape[1] as usize;
            let last = |part: &str, dtype: Option<Dtype>| {
                let tensor = metadata.info(&format!("{}.{part}", task.path))?;
                let fits = dtype.is_none_or(|dtype| dtype == tensor.dtype);
                tensor
                    .shape
                    .last()
                    .copied()
                    .filter(|&size| fits && size > 0)
            };
            let words = last("weight", Some(Dtype::U32));
            match words.zip(last("scales", None)) {
                None => json!(false),
                Some((words, groups)) => affine(words * 32 / columns, columns / groups),
            }
        }
    }
}
