//! One run of a launch: its memory, its program, and the checks afterwards.

use std::{ffi::c_void, mem, sync::Arc};

use crate::{
    DType, Input, KernelSource, Launch, OutputSpec, SimError, Simulator,
    buffers::{self, ALIGNMENT, Guarded, Poison},
    compile::Module,
    fault::Fault,
    geometry::Geometry,
    signature::Binding,
    source::Generated,
    worker::Program,
};

/// One call of `run_into`: its memory and its program.
pub struct Run<'a, 'o> {
    simulator: &'a Simulator,
    kernel: &'a KernelSource,
    launch: &'a Launch<'a>,
    generated: &'a Generated,
    module: Arc<Module>,
    inputs: Vec<Option<Guarded>>,
    shapes: Vec<Shape>,
    outputs: &'a mut [&'o mut [u8]],
    guarded_outputs: Vec<Option<Guarded>>,
}

/// What a body can learn of an input besides its elements.
struct Shape {
    extents: Vec<i32>,
    strides: Vec<i64>,
    rank: i32,
}

impl Shape {
    fn of(input: &Input<'_>) -> Self {
        let row_major = || {
            let mut strides: Vec<i64> = input
                .shape
                .iter()
                .rev()
                .scan(1, |step, &n| Some(mem::replace(step, *step * n as i64)))
                .collect();
            strides.reverse();
            strides
        };
        Self {
            extents: input.shape.iter().map(|&n| n as i32).collect(),
            strides: input.strides.clone().unwrap_or_else(row_major),
            rank: input.shape.len() as i32,
        }
    }
}

impl<'a, 'o> Run<'a, 'o> {
    pub fn new(
        simulator: &'a Simulator,
        kernel: &'a KernelSource,
        launch: &'a Launch<'a>,
        generated: &'a Generated,
        outputs: &'a mut [&'o mut [u8]],
    ) -> Result<Self, SimError> {
        let module = simulator.compiler.module(&kernel.name, &generated.text)?;
        let strict = simulator.config().strict;
        let in_place = |data: &[u8]| {
            !strict && !data.is_empty() && data.as_ptr().addr().is_multiple_of(ALIGNMENT)
        };
        let inputs = launch
            .inputs
            .iter()
            .map(|i| (!in_place(i.data)).then(|| Guarded::copy_of(i.data)))
            .collect();
        let guarded_outputs = outputs
            .iter()
            .map(|data| (!in_place(data)).then(|| Guarded::new(data.len())))
            .collect();
        Ok(Self {
            simulator,
            kernel,
            launch,
            generated,
            module,
            inputs,
            shapes: launch.inputs.iter().map(Shape::of).collect(),
            outputs,
            guarded_outputs,
        })
    }

    fn output(&self, index: usize) -> &[u8] {
        self.guarded_outputs[index]
            .as_ref()
            .map_or(&*self.outputs[index], Guarded::data)
    }

    /// Fills the outputs, runs all groups, and checks the guard zones.
    pub fn go(&mut self, poison: Poison) -> Result<(), SimError> {
        for (index, spec) in self.launch.outputs.iter().enumerate() {
            let data = self.guarded_outputs[index]
                .as_mut()
                .map_or(&mut *self.outputs[index], Guarded::data_mut);
            match self.launch.init_value {
                Some(value) => buffers::initialise(data, spec.dtype, value),
                None => buffers::poison(data, spec.dtype, poison),
            }
        }
        let buffers = self.pointers();
        let program = Program {
            module: &self.module,
            buffers: &buffers,
            geometry: Geometry::new(self.launch.grid, self.launch.threadgroup),
            order: self.simulator.config().order,
            threadgroup_bytes: self.simulator.config().threadgroup_bytes,
        };
        self.simulator
            .execute(&program)
            .map_err(|(index, fault)| self.explain(program.geometry.position(index), fault))?;
        self.check_guards()
    }

    fn pointers(&mut self) -> Vec<*mut c_void> {
        let mut pointers = Vec::with_capacity(self.generated.signature.bindings.len());
        for &binding in &self.generated.signature.bindings {
            pointers.push(match binding {
                Binding::Input(i) => match &mut self.inputs[i] {
                    Some(copy) => copy.as_mut_ptr().cast(),
                    None => self.launch.inputs[i].data.as_ptr().cast_mut().cast(),
                },
                Binding::Shape(i) => self.shapes[i].extents.as_mut_ptr().cast(),
                Binding::Strides(i) => self.shapes[i].strides.as_mut_ptr().cast(),
                Binding::Rank(i) => (&raw mut self.shapes[i].rank).cast(),
                Binding::Output(i) => match &mut self.guarded_outputs[i] {
                    Some(copy) => copy.as_mut_ptr().cast(),
                    None => self.outputs[i].as_mut_ptr().cast(),
                },
            });
        }
        pointers
    }

    fn check_guards(&self) -> Result<(), SimError> {
        let kernel = self.kernel;
        for ((name, copy), input) in kernel
            .input_names
            .iter()
            .zip(&self.inputs)
            .zip(self.launch.inputs)
        {
            self.check_zones(name, copy.as_ref(), input.dtype, input.elements())?;
            let changed =
                |copy: &Guarded| copy.data().iter().zip(input.data).position(|(a, b)| a != b);
            if let Some(byte) = copy.as_ref().and_then(changed) {
                return Err(SimError::InputWritten {
                    kernel: kernel.name.clone(),
                    input: name.clone(),
                    element: byte / input.dtype.size(),
                });
            }
        }
        for ((name, copy), spec) in kernel
            .output_names
            .iter()
            .zip(&self.guarded_outputs)
            .zip(self.launch.outputs)
        {
            self.check_zones(name, copy.as_ref(), spec.dtype, spec.elements())?;
        }
        Ok(())
    }

    fn check_zones(
        &self,
        name: &str,
        copy: Option<&Guarded>,
        dtype: DType,
        total: usize,
    ) -> Result<(), SimError> {
        let Some(offset) = copy.and_then(Guarded::trespass) else {
            return Ok(());
        };
        Err(SimError::OutOfBounds {
            kernel: self.kernel.name.clone(),
            buffer: name.to_owned(),
            element: buffers::element_of(offset, dtype),
            total,
        })
    }

    /// Per output, the elements that hold poison.
    pub fn unwritten(&self, poison: Poison) -> Vec<Vec<usize>> {
        let of = |(index, spec): (usize, &OutputSpec)| match self.launch.init_value {
            Some(_) => Vec::new(),
            None => buffers::poisoned(self.output(index), spec.dtype, poison),
        };
        self.launch.outputs.iter().enumerate().map(of).collect()
    }

    pub fn check_written(&self, suspects: &[Vec<usize>]) -> Result<(), SimError> {
        for (index, (again, before)) in self
            .unwritten(Poison::Second)
            .iter()
            .zip(suspects)
            .enumerate()
        {
            let mut both = again.iter().filter(|at| before.binary_search(at).is_ok());
            if let Some(&first) = both.next() {
                return Err(SimError::Unwritten {
                    kernel: self.kernel.name.clone(),
                    output: self.kernel.output_names[index].clone(),
                    first,
                    count: both.count() + 1,
                    total: self.launch.outputs[index].elements(),
                });
            }
        }
        Ok(())
    }

    /// Hands copied outputs to the caller.
    pub fn finish(self) {
        for (output, copy) in self.outputs.iter_mut().zip(&self.guarded_outputs) {
            if let Some(copy) = copy {
                output.copy_from_slice(copy.data());
            }
        }
    }

    fn explain(&self, group: [u32; 3], fault: Fault) -> SimError {
        let kernel = self.kernel.name.clone();
        match fault {
            Fault::Divergence { first, second } => SimError::Divergence {
                kernel,
                group,
                first,
                second,
            },
            Fault::Missing { waiting, missing } => SimError::Missing {
                kernel,
                group,
                waiting,
                missing,
            },
            Fault::ThreadgroupMemory { place, wanted } => SimError::ThreadgroupMemory {
                kernel,
                place,
                wanted,
                limit: self.simulator.config().threadgroup_bytes,
            },
            Fault::Overrun(overrun) => SimError::ThreadgroupOverrun {
                kernel,
                variable: self.generated.shared_names[overrun.slot].clone(),
                byte: overrun.byte,
                bytes: overrun.bytes,
            },
            Fault::Stack(source) => SimError::Stack {
                bytes: self.simulator.config().stack_bytes,
                source,
            },
        }
    }
}
