//! Which files a model folder is made of.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use mlx_rs::Array;
use serde_json::Value;

use super::safetensors_file;
use crate::error::{ModelError, Result};

const SINGLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";

/// A model folder whose shards are all present, with sound headers.
pub(crate) struct Folder {
    shards: Vec<PathBuf>,
}

impl Folder {
    /// Finds the shards of the folder at `path` and checks every header, before any tensor is
    /// loaded. An index, where there is one, decides.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let index = path.join(INDEX);
        if !index.is_file() {
            let single = path.join(SINGLE);
            safetensors_file::read_header(&single)?;
            return Ok(Self {
                shards: vec![single],
            });
        }
        let weight_map = read_weight_map(&index)?;
        let names: BTreeSet<&String> = weight_map.values().collect();
        let missing: Vec<String> = names
            .iter()
            .filter(|name| !path.join(name).is_file())
            .map(|&name| name.clone())
            .collect();
        if !missing.is_empty() {
            return Err(ModelError::MissingShards {
                index,
                shards: missing,
            });
        }
        let mut headers = HashMap::new();
        for name in &names {
            headers.insert(
                name.as_str(),
                safetensors_file::read_header(&path.join(name))?,
            );
        }
        for (tensor, shard) in &weight_map {
            if headers
                .get(shard.as_str())
                .is_none_or(|header| header.info(tensor).is_none())
            {
                return Err(ModelError::Malformed {
                    path: path.join(shard),
                    format: "safetensors",
                    what: format!("tensor `{tensor}`, which the index places here,"),
                    found: "absent".into(),
                    expected: "a tensor of this shard".into(),
                });
            }
        }
        Ok(Self {
            shards: names.iter().map(|name| path.join(name)).collect(),
        })
    }

    /// Loads all tensors, lazily: MLX reads each when it is first evaluated.
    pub(crate) fn load_tensors(&self) -> Result<HashMap<String, Array>> {
        let mut tensors = HashMap::new();
        for shard in &self.shards {
            tensors.extend(safetensors_file::load(shard)?);
        }
        Ok(tensors)
    }
}

/// The index's map from tensor to shard. A shard is a file of the folder itself: a name that
/// leads elsewhere is refused.
fn read_weight_map(index: &Path) -> Result<BTreeMap<String, String>> {
    let json = read_json(index, "shard index")?;
    let entries = json
        .get("weight_map")
        .and_then(Value::as_object)
        .ok_or_else(|| ModelError::MissingKey {
            path: index.into(),
            key: "weight_map".into(),
        })?;
    entries
        .iter()
        .map(|(tensor, shard)| {
            let name = shard
                .as_str()
                .filter(|name| is_plain_file_name(name))
                .ok_or_else(|| ModelError::Malformed {
                    path: index.into(),
                    format: "shard index",
                    what: format!("shard of `{tensor}`"),
                    found: shard.to_string(),
                    expected: "the name of a file in the same folder".into(),
                })?;
            Ok((tensor.clone(), name.to_owned()))
        })
        .collect()
}

fn is_plain_file_name(name: &str) -> bool {
    !name.contains('\\') && Path::new(name).file_name().is_some_and(|file| file == name)
}

/// Reads a JSON file that has to be there.
pub(crate) fn read_json(path: &Path, expected: &'static str) -> Result<Value> {
    if !path.is_file() {
        return Err(ModelError::Missing {
            path: path.into(),
            expected,
        });
    }
    let text = std::fs::read(path).map_err(|source| ModelError::Io {
        path: path.into(),
        source,
    })?;
    serde_json::from_slice(&text).map_err(|source| ModelError::Json {
        path: path.into(),
        source,
    })
}

/// Reads a JSON file, `null` if it is not there.
pub(crate) fn read_json_if_present(path: &Path) -> Result<Value> {
    if path.is_file() {
        read_json(path, "JSON file")
    } else {
        Ok(Value::Null)
    }
}
