//! metal-sim as the simulator of mlx-op.

use std::sync::Arc;

use metal_sim::{Config, DType, Input, KernelSource, Launch, OutputSpec};
use mlx_op::{SimLaunch, Simulator, TemplateArg};
use mlx_rs::Dtype;
use once_cell::sync::OnceCell;

use crate::Error;

/// The process's simulator, set up on first use.
///
/// # Errors
///
/// When the host's C++ compiler cannot be run or the cache directory cannot be made.
pub(crate) fn shared() -> Result<Arc<dyn Simulator>, Error> {
    static SHARED: OnceCell<Arc<dyn Simulator>> = OnceCell::new();
    SHARED
        .get_or_try_init(|| {
            // Operands stay where they are: copies between guard zones are for tests of the bodies.
            let config = Config {
                strict: false,
                ..Config::default()
            };
            Ok(with_config(config)?)
        })
        .cloned()
}

/// A simulator with these settings, for [`mlx_op::KernelDevice::Sim`].
///
/// # Errors
///
/// When the host's C++ compiler cannot be run or the cache directory cannot be made.
pub fn with_config(config: Config) -> Result<Arc<dyn Simulator>, mlx_op::Error> {
    let simulator = metal_sim::Simulator::new(config).map_err(|error| {
        let backend = mlx_op::Backend::Sim;
        mlx_op::Error::Unavailable {
            backend,
            reason: error.to_string(),
        }
    })?;
    Ok(Arc::new(MetalSim(simulator)))
}

struct MetalSim(metal_sim::Simulator);

impl Simulator for MetalSim {
    fn run(&self, launch: &SimLaunch<'_>, outputs: &mut [&mut [u8]]) -> Result<(), String> {
        let source = KernelSource {
            name: launch.name.to_owned(),
            input_names: launch.input_names.to_vec(),
            output_names: launch.output_names.to_vec(),
            body: launch.text.body.clone(),
            header: launch.text.header.clone(),
        };
        let inputs = launch
            .inputs
            .iter()
            .map(|input| {
                Ok(Input::new(
                    input.bytes,
                    &extents(input.shape),
                    dtype(input.dtype)?,
                ))
            })
            .collect::<Result<Vec<_>, String>>()?;
        let specs = launch
            .outputs
            .iter()
            .map(|output| {
                Ok(OutputSpec::new(
                    &extents(&output.shape),
                    dtype(output.dtype)?,
                ))
            })
            .collect::<Result<Vec<_>, String>>()?;
        let template = launch
            .template
            .iter()
            .map(|(name, argument)| Ok((name.as_str(), template_arg(*argument)?)))
            .collect::<Result<Vec<_>, String>>()?;
        let launch = Launch {
            inputs: &inputs,
            outputs: &specs,
            template: &template,
            grid: launch.grid.map(|size| size as usize),
            threadgroup: launch.threadgroup.map(|size| size as usize),
            init_value: launch.init_value,
        };
        self.0
            .run_into(&source, &launch, outputs)
            .map_err(|error| error.to_string())
    }
}

fn extents(shape: &[i32]) -> Vec<usize> {
    shape.iter().map(|&size| size as usize).collect()
}

fn template_arg(argument: TemplateArg) -> Result<metal_sim::TemplateArg, String> {
    Ok(match argument {
        TemplateArg::Int(value) => metal_sim::TemplateArg::Int(value),
        TemplateArg::Bool(value) => metal_sim::TemplateArg::Bool(value),
        TemplateArg::Dtype(value) => metal_sim::TemplateArg::DType(dtype(value)?),
    })
}

fn dtype(dtype: Dtype) -> Result<DType, String> {
    Ok(match dtype {
        Dtype::Float32 => DType::F32,
        Dtype::Float16 => DType::F16,
        Dtype::Bfloat16 => DType::BF16,
        Dtype::Uint8 => DType::U8,
        Dtype::Int8 => DType::I8,
        Dtype::Uint16 => DType::U16,
        Dtype::Int16 => DType::I16,
        Dtype::Uint32 => DType::U32,
        Dtype::Int32 => DType::I32,
        Dtype::Uint64 => DType::U64,
        Dtype::Int64 => DType::I64,
        Dtype::Bool => DType::Bool,
        Dtype::Float64 | Dtype::Complex64 => {
            return Err(format!("Metal kernels have no {dtype:?}"));
        }
    })
}
