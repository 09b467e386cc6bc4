//! The same model in plain Rust and float64, without a cache: what logits should be.

use mlx_model::ModelConfig;

use crate::tiny::{HEAD_DIM, HEADS, KV_HEADS, LAYERS, Tiny};

type Rows = Vec<Vec<f64>>;

/// Logits of every position.
pub fn logits(tiny: &Tiny, tokens: &[u32]) -> Rows {
    let config = ModelConfig::from_hf_json("config.json".as_ref(), &tiny.config).unwrap();
    let reference = Reference { tiny, config };
    let table = reference.rows("model.embed_tokens.weight");
    let mut stream: Rows = tokens
        .iter()
        .map(|&token| table[token as usize].clone())
        .collect();
    for layer in 0..LAYERS {
        let path = format!("model.layers.{layer}");
        let normed = reference.norm(&stream, &format!("{path}.input_layernorm"));
        add(
            &mut stream,
            &reference.attention(&normed, &format!("{path}.self_attn")),
        );
        let normed = reference.norm(&stream, &format!("{path}.post_attention_layernorm"));
        add(&mut stream, &reference.mlp(&normed, &format!("{path}.mlp")));
    }
    let normed = reference.norm(&stream, "model.norm");
    let head = if tiny.tensors.contains_key("lm_head.weight") {
        "lm_head"
    } else {
        "model.embed_tokens"
    };
    reference.linear(&normed, head)
}

struct Reference<'a> {
    tiny: &'a Tiny,
    config: ModelConfig,
}

impl Reference<'_> {
    fn vector(&self, name: &str) -> Option<Vec<f64>> {
        let tensor = self.tiny.tensors.get(name)?;
        Some(tensor.values.iter().copied().map(f64::from).collect())
    }

    fn rows(&self, name: &str) -> Rows {
        let columns = self.tiny.tensors[name].shape[1];
        self.vector(name)
            .unwrap()
            .chunks(columns)
            .map(<[f64]>::to_vec)
            .collect()
    }

    fn linear(&self, x: &Rows, path: &str) -> Rows {
        let weight = self.rows(&format!("{path}.weight"));
        let bias = self.vector(&format!("{path}.bias"));
        let bias = |output: usize| bias.as_ref().map_or(0.0, |bias| bias[output]);
        let apply = |x: &Vec<f64>| {
            weight
                .iter()
                .enumerate()
                .map(|(n, row)| dot(x, row) + bias(n))
                .collect()
        };
        x.iter().map(apply).collect()
    }

    fn norm(&self, x: &Rows, path: &str) -> Rows {
        let weight = self.vector(&format!("{path}.weight")).unwrap();
        x.iter().map(|x| self.norm_one(x, &weight)).collect()
    }

    fn norm_one(&self, x: &[f64], weight: &[f64]) -> Vec<f64> {
        let mean_square = dot(x, x) / x.len() as f64;
        let factor = (mean_square + f64::from(self.config.norm_eps))
            .sqrt()
            .recip();
        x.iter()
            .zip(weight)
            .map(|(x, weight)| x * factor * weight)
            .collect()
    }

    fn mlp(&self, x: &Rows, path: &str) -> Rows {
        let mut gate = self.linear(x, &format!("{path}.gate_proj"));
        let up = self.linear(x, &format!("{path}.up_proj"));
        for (gate, up) in gate.iter_mut().zip(&up) {
            for (gate, up) in gate.iter_mut().zip(up) {
                *gate = *gate / (1.0 + (-*gate).exp()) * up;
            }
        }
        self.linear(&gate, &format!("{path}.down_proj"))
    }

    fn attention(&self, x: &Rows, path: &str) -> Rows {
        let queries = self.heads(x, path, "q", HEADS);
        let keys = self.heads(x, path, "k", KV_HEADS);
        let values = self.linear(x, &format!("{path}.v_proj"));
        let mut mixed = vec![vec![0.0; HEADS * HEAD_DIM]; x.len()];
        for position in 0..x.len() {
            for head in 0..HEADS {
                let kv_head = head / (HEADS / KV_HEADS);
                let scores: Vec<f64> = (0..=position)
                    .map(|past| {
                        dot(&queries[position][head], &keys[past][kv_head])
                            / (HEAD_DIM as f64).sqrt()
                    })
                    .collect();
                let sum: f64 = scores.iter().map(|score| score.exp()).sum();
                for (past, score) in scores.iter().enumerate() {
                    for lane in 0..HEAD_DIM {
                        mixed[position][head * HEAD_DIM + lane] +=
                            score.exp() / sum * values[past][kv_head * HEAD_DIM + lane];
                    }
                }
            }
        }
        self.linear(&mixed, &format!("{path}.o_proj"))
    }

    /// Projected, normalised and rotated heads by position.
    fn heads(&self, x: &Rows, path: &str, name: &str, heads: usize) -> Vec<Rows> {
        let projected = self.linear(x, &format!("{path}.{name}_proj"));
        let norm = self.vector(&format!("{path}.{name}_norm.weight"));
        let split = |(position, row): (usize, &Vec<f64>)| {
            let heads = row.chunks(HEAD_DIM).map(|head| {
                let head = match &norm {
                    Some(weight) => self.norm_one(head, weight),
                    None => head.to_vec(),
                };
                self.rotate(head, position)
            });
            heads.collect::<Rows>()
        };
        let split: Vec<Rows> = projected.iter().enumerate().map(split).collect();
        assert!(split.iter().all(|row| row.len() == heads));
        split
    }

    fn rotate(&self, mut head: Vec<f64>, position: usize) -> Vec<f64> {
        let rope = &self.config.rope;
        let dimensions = rope.dimensions as usize;
        let position = position as f64 * f64::from(rope.position_scale());
        let periods = rope.periods().map_or_else(
            || {
                let power = |pair: usize| 2.0 * pair as f64 / dimensions as f64;
                (0..dimensions / 2)
                    .map(|pair| f64::from(rope.base).powf(power(pair)))
                    .collect()
            },
            |periods| periods.into_iter().map(f64::from).collect::<Vec<f64>>(),
        );
        for (pair, period) in periods.iter().enumerate() {
            let (sin, cos) = (position / period).sin_cos();
            let (first, second) = (head[pair], head[pair + dimensions / 2]);
            head[pair] = first * cos - second * sin;
            head[pair + dimensions / 2] = first * sin + second * cos;
        }
        let factor = f64::from(rope.attention_factor());
        head.iter().map(|value| value * factor).collect()
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn add(stream: &mut Rows, branch: &Rows) {
    for (stream, branch) in stream.iter_mut().zip(branch) {
        for (stream, branch) in stream.iter_mut().zip(branch) {
            *stream += branch;
        }
    }
}
