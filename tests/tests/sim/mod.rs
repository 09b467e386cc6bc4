//! Running this project's shaders in the simulator, and what the tests compare them with.

#![allow(dead_code, reason = "each test file uses its own part")]

pub mod affine;
pub mod random;

use std::path::Path;
use std::sync::OnceLock;

use half::{bf16, f16};
use metal_sim::{
    Config, DType, Input, KernelSource, Launch, Order, OutputSpec, SimError, Simulator, TemplateArg,
};
use mlx_kernels::shaders::{Shader, Text};

/// The three float types that every kernel takes.
pub const FLOATS: [DType; 3] = [DType::F32, DType::F16, DType::BF16];

/// A simulator shared by the tests of a file, strict about bounds. Compiled kernels stay in the
/// target directory, so that a second run is quick.
pub fn simulator() -> &'static Simulator {
    static SHARED: OnceLock<Simulator> = OnceLock::new();
    SHARED.get_or_init(|| ordered(Order::Forward))
}

/// A simulator that runs the threads of a group in another order.
pub fn ordered(order: Order) -> Simulator {
    let cache_dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("metal-sim");
    let config = Config {
        cache_dir,
        order,
        strict: true,
        ..Config::default()
    };
    Simulator::new(config).expect("a host compiler")
}

/// A shader as the simulator takes it.
pub fn source(shader: &Shader) -> KernelSource {
    source_of(shader, shader.metal())
}

/// A shader with other texts under its name.
pub fn source_of(shader: &Shader, text: Text) -> KernelSource {
    let names = |names: &[&str]| names.iter().map(ToString::to_string).collect();
    KernelSource {
        name: shader.name.to_owned(),
        input_names: names(shader.inputs),
        output_names: names(shader.outputs),
        body: text.body,
        header: text.header,
    }
}

/// An array as bytes with its shape and type.
#[derive(Debug, Clone, PartialEq)]
pub struct Tensor {
    pub shape: Vec<usize>,
    pub dtype: DType,
    pub bytes: Vec<u8>,
}

impl Tensor {
    /// Floats, rounded to `dtype`.
    pub fn floats(values: &[f32], shape: &[usize], dtype: DType) -> Self {
        Self {
            shape: shape.to_vec(),
            dtype,
            bytes: encode(values, dtype),
        }
    }

    /// Unsigned words.
    pub fn words(values: &[u32], shape: &[usize]) -> Self {
        let bytes = values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect();
        Self {
            shape: shape.to_vec(),
            dtype: DType::U32,
            bytes,
        }
    }

    /// A golden tensor.
    pub fn golden(tensor: &integration_tests::golden::Tensor) -> Self {
        let dtype = match tensor.dtype {
            safetensors::Dtype::F32 => DType::F32,
            safetensors::Dtype::F16 => DType::F16,
            safetensors::Dtype::BF16 => DType::BF16,
            safetensors::Dtype::U32 => DType::U32,
            other => panic!("no tensor of {other:?} is expected here"),
        };
        Self {
            shape: tensor.shape.clone(),
            dtype,
            bytes: tensor.bytes.clone(),
        }
    }

    /// Every element as `f32`.
    pub fn to_f32(&self) -> Vec<f32> {
        decode(&self.bytes, self.dtype)
    }

    /// The elements of a `u32` array.
    pub fn to_u32(&self) -> Vec<u32> {
        assert_eq!(self.dtype, DType::U32);
        self.bytes
            .as_chunks()
            .0
            .iter()
            .map(|&bytes| u32::from_le_bytes(bytes))
            .collect()
    }
}

/// Runs a kernel on row-major arrays.
pub fn run(
    simulator: &Simulator,
    kernel: &KernelSource,
    inputs: &[&Tensor],
    outputs: &[OutputSpec],
    template: &[(&str, TemplateArg)],
    grid: [usize; 3],
    threadgroup: [usize; 3],
    init_value: Option<f32>,
) -> Result<Vec<Tensor>, SimError> {
    let inputs: Vec<Input<'_>> = inputs
        .iter()
        .map(|t| Input::new(&t.bytes, &t.shape, t.dtype))
        .collect();
    let launch = Launch {
        inputs: &inputs,
        outputs,
        template,
        grid,
        threadgroup,
        init_value,
    };
    let tensor = |buffer: metal_sim::OutputBuf| Tensor {
        shape: buffer.spec.shape,
        dtype: buffer.spec.dtype,
        bytes: buffer.data,
    };
    Ok(simulator
        .run(kernel, &launch)?
        .into_iter()
        .map(tensor)
        .collect())
}

/// A template integer.
pub fn int(value: usize) -> TemplateArg {
    TemplateArg::Int(i32::try_from(value).expect("a template integer"))
}

/// `value` rounded to `dtype` and widened again.
pub fn round(value: f32, dtype: DType) -> f32 {
    match dtype {
        DType::F16 => f16::from_f32(value).to_f32(),
        DType::BF16 => bf16::from_f32(value).to_f32(),
        _ => value,
    }
}

/// Little-endian elements of `dtype`, each rounded from `values`.
pub fn encode(values: &[f32], dtype: DType) -> Vec<u8> {
    match dtype {
        DType::F32 => values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect(),
        DType::F16 => values
            .iter()
            .flat_map(|&value| f16::from_f32(value).to_le_bytes())
            .collect(),
        DType::BF16 => values
            .iter()
            .flat_map(|&value| bf16::from_f32(value).to_le_bytes())
            .collect(),
        other => panic!("{other:?} is not a float type"),
    }
}

/// The elements of `dtype`, widened.
pub fn decode(bytes: &[u8], dtype: DType) -> Vec<f32> {
    let halves = || {
        bytes
            .as_chunks()
            .0
            .iter()
            .map(|&pair| u16::from_le_bytes(pair))
    };
    match dtype {
        DType::F32 => bytes
            .as_chunks()
            .0
            .iter()
            .map(|&word| f32::from_le_bytes(word))
            .collect(),
        DType::F16 => halves().map(|bits| f16::from_bits(bits).to_f32()).collect(),
        DType::BF16 => halves()
            .map(|bits| bf16::from_bits(bits).to_f32())
            .collect(),
        other => panic!("{other:?} is not a float type"),
    }
}

/// Half the distance of neighbouring numbers of `dtype`, relative.
pub fn unit_roundoff(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => (-11f64).exp2(),
        DType::BF16 => (-8f64).exp2(),
        _ => (-24f64).exp2(),
    }
}

/// The smallest positive number of `dtype`.
pub fn smallest_subnormal(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => (-24f64).exp2(),
        DType::BF16 => (-133f64).exp2(),
        _ => (-149f64).exp2(),
    }
}

/// The largest finite number of `dtype`.
pub fn largest(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => f16::MAX.to_f64(),
        DType::BF16 => bf16::MAX.to_f64(),
        _ => f64::from(f32::MAX),
    }
}
