//! The simulator: from a kernel and a launch to results.

use std::{
    ffi::c_void,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
};

use crate::{
    Config, DType, Element, KernelSource, Launch, OutputSpec, SimError,
    buffers::{self, ALIGNMENT, Guarded, Poison},
    compile::{Compiler, Module},
    geometry::Geometry,
    kernel,
    signature::Binding,
    source::{self, Generated},
    worker::{Fault, Program, Worker},
};

/// An output of [`Simulator::run`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputBuf {
    /// Shape and element type.
    pub spec: OutputSpec,
    /// The elements' bytes, row-major.
    pub data: Vec<u8>,
}

impl OutputBuf {
    /// The elements, or nothing when `T` is not the output's type.
    #[must_use]
    pub fn to_vec<T: Element>(&self) -> Option<Vec<T>> {
        let boolean = self.spec.dtype == DType::Bool && T::DTYPE == DType::U8;
        if T::DTYPE != self.spec.dtype && !boolean {
            return None;
        }
        let mut elements: Vec<T> = Vec::with_capacity(self.spec.elements());
        // SAFETY: `data` holds that many elements of T, any bytes are a T, and the vector has room for them.
        unsafe {
            std::ptr::copy_nonoverlapping(
                self.data.as_ptr(),
                elements.as_mut_ptr().cast(),
                self.data.len(),
            );
            elements.set_len(self.spec.elements());
        }
        Some(elements)
    }
}

/// Compiles kernels and runs them. Can be shared among threads.
pub struct Simulator {
    config: Config,
    compiler: Compiler,
    workers: Mutex<Vec<Worker>>,
}

impl Simulator {
    /// Sets a simulator up.
    ///
    /// # Errors
    /// When the compiler cannot be run or the cache directory cannot be made.
    pub fn new(config: Config) -> Result<Self, SimError> {
        let compiler = Compiler::new(&config.compiler, &config.cache_dir)?;
        Ok(Self {
            config,
            compiler,
            workers: Mutex::default(),
        })
    }

    /// Its settings.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Runs a launch into fresh outputs.
    ///
    /// # Errors
    /// Any [`SimError`]: what is wrong with the kernel, the launch, or the run.
    pub fn run(
        &self,
        kernel: &KernelSource,
        launch: &Launch<'_>,
    ) -> Result<Vec<OutputBuf>, SimError> {
        kernel::check_launch(kernel, launch)?;
        let mut memory: Vec<Vec<u8>> = launch
            .outputs
            .iter()
            .map(|spec| vec![0; spec.bytes()])
            .collect();
        let mut slices: Vec<&mut [u8]> = memory.iter_mut().map(Vec::as_mut_slice).collect();
        self.run_into(kernel, launch, &mut slices)?;
        let output = |(spec, data): (&OutputSpec, Vec<u8>)| OutputBuf {
            spec: spec.clone(),
            data,
        };
        Ok(launch.outputs.iter().zip(memory).map(output).collect())
    }

    /// Runs a launch into the caller's memory. What it holds after an error is unspecified.
    ///
    /// # Errors
    /// Any [`SimError`]: what is wrong with the kernel, the launch, or the run.
    pub fn run_into(
        &self,
        kernel: &KernelSource,
        launch: &Launch<'_>,
        outputs: &mut [&mut [u8]],
    ) -> Result<(), SimError> {
        kernel::check_kernel(kernel, launch.template)?;
        kernel::check_launch(kernel, launch)?;
        if outputs.len() != launch.outputs.len() {
            let (expected, found) = (launch.outputs.len(), outputs.len());
            return Err(SimError::Count {
                kernel: kernel.name.clone(),
                what: "output slices",
                expected,
                found,
            });
        }
        for ((name, spec), data) in kernel
            .output_names
            .iter()
            .zip(launch.outputs)
            .zip(outputs.iter())
        {
            kernel::check_bytes(kernel, name, &spec.shape, spec.dtype, data.len())?;
        }
        let generated = source::generate(kernel, launch)?;
        let mut run = Run::new(self, kernel, launch, &generated, outputs)?;
        run.go(Poison::First)?;
        let suspects = run.unwritten(Poison::First);
        if suspects.iter().any(|indices| !indices.is_empty()) {
            run.go(Poison::Second)?;
            run.check_written(&suspects)?;
        }
        run.finish();
        Ok(())
    }

    /// The text handed to the compiler, without the dialect before it.
    ///
    /// # Errors
    /// When the kernel or the launch is wrong; the text is not compiled.
    pub fn generated_source(
        &self,
        kernel: &KernelSource,
        launch: &Launch<'_>,
    ) -> Result<String, SimError> {
        kernel::check_kernel(kernel, launch.template)?;
        kernel::check_launch(kernel, launch)?;
        Ok(source::generate(kernel, launch)?.text)
    }

    /// Runs all groups of a program, spread over host threads.
    fn execute(&self, program: &Program<'_>) -> Result<(), (u64, Fault)> {
        let groups = program.geometry.group_count();
        let threads = (self.config.threads.max(1) as u64).min(groups);
        let (next, stop) = (AtomicU64::new(0), AtomicBool::new(false));
        let fault: Mutex<Option<(u64, Fault)>> = Mutex::default();
        let work = || {
            let taken = self
                .workers
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .pop();
            let mut worker = taken.unwrap_or_else(|| Worker::new(self.config.stack_bytes));
            worker.begin(program);
            while !stop.load(Ordering::Relaxed) {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= groups {
                    break;
                }
                if let Err(found) = worker.run(program, index) {
                    stop.store(true, Ordering::Relaxed);
                    let mut fault = fault.lock().unwrap_or_else(PoisonError::into_inner);
                    if fault.as_ref().is_none_or(|(earlier, _)| index < *earlier) {
                        *fault = Some((index, found));
                    }
                }
            }
            self.workers
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(worker);
        };
        thread::scope(|scope| {
            for _ in 1..threads {
                scope.spawn(work);
            }
            work();
        });
        fault
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner)
            .map_or(Ok(()), Err)
    }
}

/// One call of `run_into`: its memory and its program.
struct Run<'a, 'o> {
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
    fn of(input: &crate::Input<'_>) -> Self {
        let row_major = || {
            let mut strides: Vec<i64> = input
                .shape
                .iter()
                .rev()
                .scan(1, |step, &n| {
                    Some(std::mem::replace(step, *step * n as i64))
                })
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
    fn new(
        simulator: &'a Simulator,
        kernel: &'a KernelSource,
        launch: &'a Launch<'a>,
        generated: &'a Generated,
        outputs: &'a mut [&'o mut [u8]],
    ) -> Result<Self, SimError> {
        let module = simulator.compiler.module(&kernel.name, &generated.text)?;
        let strict = simulator.config.strict;
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
    fn go(&mut self, poison: Poison) -> Result<(), SimError> {
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
            order: self.simulator.config.order,
            threadgroup_bytes: self.simulator.config.threadgroup_bytes,
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
        let inputs = self
            .kernel
            .input_names
            .iter()
            .zip(&self.inputs)
            .zip(self.launch.inputs.iter().map(|i| (i.dtype, i.elements())));
        let outputs = self
            .kernel
            .output_names
            .iter()
            .zip(&self.guarded_outputs)
            .zip(self.launch.outputs.iter().map(|o| (o.dtype, o.elements())));
        for ((name, guarded), (dtype, total)) in inputs.chain(outputs) {
            if let Some(offset) = guarded.as_ref().and_then(Guarded::trespass) {
                return Err(SimError::OutOfBounds {
                    kernel: self.kernel.name.clone(),
                    buffer: name.clone(),
                    element: buffers::element_of(offset, dtype),
                    total,
                });
            }
        }
        for ((name, copy), input) in self
            .kernel
            .input_names
            .iter()
            .zip(&self.inputs)
            .zip(self.launch.inputs)
        {
            let changed = copy
                .as_ref()
                .and_then(|copy| copy.data().iter().zip(input.data).position(|(a, b)| a != b));
            if let Some(byte) = changed {
                return Err(SimError::InputWritten {
                    kernel: self.kernel.name.clone(),
                    input: name.clone(),
                    element: byte / input.dtype.size(),
                });
            }
        }
        Ok(())
    }

    /// Per output, the elements that hold poison.
    fn unwritten(&self, poison: Poison) -> Vec<Vec<usize>> {
        let of = |(index, spec): (usize, &OutputSpec)| match self.launch.init_value {
            Some(_) => Vec::new(),
            None => buffers::poisoned(self.output(index), spec.dtype, poison),
        };
        self.launch.outputs.iter().enumerate().map(of).collect()
    }

    fn check_written(&self, suspects: &[Vec<usize>]) -> Result<(), SimError> {
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
    fn finish(self) {
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
                first: Box::new(first),
                second: Box::new(second),
            },
            Fault::Missing { waiting, missing } => SimError::Missing {
                kernel,
                group,
                waiting: Box::new(waiting),
                missing,
            },
            Fault::ThreadgroupMemory { place, wanted } => SimError::ThreadgroupMemory {
                kernel,
                place: Box::new(place),
                wanted,
                limit: self.simulator.config.threadgroup_bytes,
            },
            Fault::RedZone { slot, byte, bytes } => SimError::ThreadgroupOverrun {
                kernel,
                variable: self.generated.shared_names[slot].clone(),
                byte: byte as usize,
                bytes,
            },
            Fault::Stack(source) => SimError::Stack {
                bytes: self.simulator.config.stack_bytes,
                source,
            },
        }
    }
}
