//! The simulator: from a kernel and a launch to results.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
};

use crate::{
    Config, DType, Element, KernelSource, Launch, OutputSpec, SimError,
    buffers::Poison,
    compile::Compiler,
    fault::Fault,
    kernel,
    run::Run,
    source,
    worker::{Program, Worker},
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
        // SAFETY: `data` holds that many elements of T, any bytes are a T, and the vector has room
        // for them.
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
    pub(crate) compiler: Compiler,
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
    pub(crate) fn execute(&self, program: &Program<'_>) -> Result<(), (u64, Fault)> {
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
