//! Causal attention over a cache of keys and values, rotary embedding included.

mod rotation;

pub use rotation::{Periods, Rotation};

use mlx_kernels_cpu::attention::Problem;
use mlx_op::{Backend, HostError, HostOp, OutputSpec};
use mlx_rs::fast::{self, ScaledDotProductAttentionMask};
use mlx_rs::ops::indexing::{TryIndexMutOp, TryIndexOp};
use mlx_rs::{Array, Dtype};

use crate::host::{floats, floats_mut, is_supported};
use crate::{Context, Error};

const OP: &str = "attention";

/// New tokens of one sequence, and where they stand.
#[derive(Debug, Clone, Copy)]
pub struct Step<'a> {
    /// Queries, `[1, tokens, heads, head width]`, not yet rotated.
    pub queries: &'a Array,
    /// Keys, `[1, tokens, kv heads, head width]`, not yet rotated; `kv heads` divides `heads`.
    pub keys: &'a Array,
    /// Values, of the keys' shape.
    pub values: &'a Array,
    /// What rotates queries and keys.
    pub rotation: &'a Rotation,
    /// Factor on `query . key`.
    pub scale: f32,
    /// Tokens that the cache holds before this step: the first new one has this position.
    pub offset: i32,
}

/// Keys and values of one layer, `[1, kv heads, capacity, head width]`.
#[derive(Debug, Clone)]
pub struct Cache {
    /// Rotated keys.
    pub keys: Array,
    /// Values.
    pub values: Array,
}

/// Writes the new tokens into `cache`, behind those it holds, and gives for each of them
/// `[1, tokens, heads * head width]` what it sees: the mix of the values up to its own by the
/// softmax of `scale * query . key`.
///
/// All arrays have one element type, float32, float16 or bfloat16. The cache's arrays are replaced by
/// their new contents, in place unless somebody else holds them.
///
/// On the CPU this is one operation in float32, which rounds what is held and the result; a token's
/// result has the same bits however many others come with it. Elsewhere it is [`stock`].
///
/// # Errors
///
/// Names the argument that does not fit, what it is and what it must be.
pub fn attend(step: &Step<'_>, cache: &mut Cache) -> Result<Array, Error> {
    let problem = check(step, cache)?;
    match Context::current().backend() {
        Backend::Cpu if problem.tokens > 0 => host(step, problem, cache),
        _ => stock(step, cache),
    }
}

/// The same by MLX's operations.
///
/// # Errors
///
/// Those of the operations.
pub fn stock(step: &Step<'_>, cache: &mut Cache) -> Result<Array, Error> {
    let (tokens, width) = (
        step.queries.dim(1),
        step.queries.dim(2) * step.queries.dim(3),
    );
    let by_head = |x: &Array| x.transpose_axes(&[0, 2, 1, 3]);
    let queries = step.rotation.apply(&by_head(step.queries)?, step.offset)?;
    let keys = step.rotation.apply(&by_head(step.keys)?, step.offset)?;
    let values = by_head(step.values)?;
    let end = step.offset + tokens;
    let fresh = (.., .., step.offset..end, ..);
    cache.keys.try_index_mut(fresh.clone(), &keys)?;
    cache.values.try_index_mut(fresh, &values)?;
    let held = (.., .., ..end, ..);
    let (keys, values) = (cache.keys.try_index(held)?, cache.values.try_index(held)?);
    let mask = (tokens > 1).then_some(ScaledDotProductAttentionMask::Causal);
    let mixed =
        fast::scaled_dot_product_attention(&queries, &keys, &values, step.scale, mask, None)?;
    Ok(by_head(&mixed)?.reshape(&[1, tokens, width])?)
}

fn check(step: &Step<'_>, cache: &Cache) -> Result<Problem, Error> {
    let refuse = |argument, array: &Array, expected: String| Error::Shape {
        op: OP,
        argument,
        found: array.shape().to_vec(),
        expected,
    };
    check_dtypes(step, cache)?;
    let &[1, tokens, heads, head_dim] = step.queries.shape() else {
        let expected = "[1, tokens, heads, head width]".to_owned();
        return Err(refuse("queries", step.queries, expected));
    };
    let kv_heads = match *step.keys.shape() {
        [1, rows, kv_heads, width]
            if (rows, width) == (tokens, head_dim) && kv_heads > 0 && heads % kv_heads == 0 =>
        {
            kv_heads
        }
        _ => {
            let expected = format!("[1, {tokens}, a divisor of {heads} heads, {head_dim}]");
            return Err(refuse("keys", step.keys, expected));
        }
    };
    if step.values.shape() != step.keys.shape() {
        let expected = format!("{:?}, as keys", step.keys.shape());
        return Err(refuse("values", step.values, expected));
    }
    let needed = i64::from(step.offset) + i64::from(tokens);
    let capacity = match *cache.keys.shape() {
        [1, rows, capacity, width]
            if (rows, width) == (kv_heads, head_dim) && i64::from(capacity) >= needed =>
        {
            capacity
        }
        _ => {
            let expected = format!("[1, {kv_heads}, at least {needed}, {head_dim}]");
            return Err(refuse("cached keys", &cache.keys, expected));
        }
    };
    if cache.values.shape() != cache.keys.shape() {
        let expected = format!("{:?}, as cached keys", cache.keys.shape());
        return Err(refuse("cached values", &cache.values, expected));
    }
    let value = |argument, found: i32, expected: String| Error::Value {
        op: OP,
        argument,
        found: found.to_string(),
        expected,
    };
    if step.offset < 0 {
        return Err(value("offset", step.offset, "at least 0".to_owned()));
    }
    let rotated = step.rotation.dimensions();
    if head_dim == 0 || rotated > head_dim {
        let expected = format!("at most the head's width, {head_dim}, which is at least 1");
        return Err(value("rotated dimensions", rotated, expected));
    }
    Ok(Problem {
        tokens: tokens as usize,
        held: step.offset as usize,
        capacity: capacity as usize,
        heads: heads as usize,
        kv_heads: kv_heads as usize,
        head_dim: head_dim as usize,
    })
}

fn check_dtypes(step: &Step<'_>, cache: &Cache) -> Result<(), Error> {
    let dtype = step.queries.dtype();
    let refuse = |argument, found: Dtype, expected: String| {
        Err(Error::Dtype {
            op: OP,
            argument,
            found,
            expected,
        })
    };
    if !is_supported(dtype) {
        let expected = "float32, float16 or bfloat16".to_owned();
        return refuse("queries", dtype, expected);
    }
    for (argument, array) in [
        ("keys", step.keys),
        ("values", step.values),
        ("cached keys", &cache.keys),
        ("cached values", &cache.values),
    ] {
        if array.dtype() != dtype {
            return refuse(argument, array.dtype(), format!("{dtype:?}, as queries"));
        }
    }
    Ok(())
}

fn host(step: &Step<'_>, problem: Problem, cache: &mut Cache) -> Result<Array, Error> {
    let (rotary, scale) = (step.rotation.rotary(), step.scale);
    let width = step.queries.dim(2) * step.queries.dim(3);
    let output = OutputSpec::new([1, step.queries.dim(1), width], step.queries.dtype());
    let results = HostOp::new(OP).update(
        &[step.queries, step.keys, step.values],
        &[&cache.keys, &cache.values],
        &[output],
        move |inputs, outputs| {
            let ([queries, keys, values], [held_keys, held_values, mixed]) = (inputs, outputs)
            else {
                return Err(HostError::failed("expected three inputs and three outputs"));
            };
            mlx_kernels_cpu::attention::attend(
                &problem,
                &rotary,
                scale,
                [floats(queries)?, floats(keys)?, floats(values)?],
                floats_mut(held_keys)?,
                floats_mut(held_values)?,
                floats_mut(mixed)?,
            )
            .map_err(HostError::failed)
        },
    )?;
    let [keys, values, mixed] = <[Array; 3]>::try_from(results).map_err(|_| {
        let name = OP.to_owned();
        Error::Op(mlx_op::Error::NoOutputs { name })
    })?;
    *cache = Cache { keys, values };
    Ok(mixed)
}
