//! What operations run on: chosen once, changeable for a scope.

use std::cell::RefCell;
use std::fmt;
use std::sync::{Arc, OnceLock};

use mlx_op::{Backend, DeviceProfile, KernelDevice, Simulator};

use crate::{Error, PlanOptions, simulator};

/// The back end, the device and the demands that plans are made under.
#[derive(Clone)]
pub struct Context {
    profile: DeviceProfile,
    options: PlanOptions,
    simulator: Option<Arc<dyn Simulator>>,
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("profile", &self.profile)
            .field("options", &self.options)
            .field("own_simulator", &self.simulator.is_some())
            .finish()
    }
}

thread_local! {
    static SCOPED: RefCell<Vec<Arc<Context>>> = const { RefCell::new(Vec::new()) };
}

static DEFAULT: OnceLock<Arc<Context>> = OnceLock::new();

impl Context {
    /// A context for `backend` on this machine.
    ///
    /// # Errors
    ///
    /// When the machine lacks the back end.
    pub fn new(backend: Backend) -> Result<Self, Error> {
        if !backend.is_available() {
            let reason = "MLX was built without it or finds no such device".to_owned();
            return Err(mlx_op::Error::Unavailable { backend, reason }.into());
        }
        Ok(Self {
            profile: DeviceProfile::detect(backend),
            options: PlanOptions::default(),
            simulator: None,
        })
    }

    /// A context for the best back end of this machine.
    pub fn detect() -> Self {
        let profile = DeviceProfile::detect(Backend::detect());
        Self {
            profile,
            options: PlanOptions::default(),
            simulator: None,
        }
    }

    /// The same context with other demands on plans.
    pub fn with_options(self, options: PlanOptions) -> Self {
        Self { options, ..self }
    }

    /// The same context with `simulator` running the kernels of [`Backend::Sim`], in place of the
    /// process's own: a stricter one, say, or one that records what is launched.
    pub fn with_simulator(self, simulator: Arc<dyn Simulator>) -> Self {
        Self {
            simulator: Some(simulator),
            ..self
        }
    }

    /// The back end.
    pub fn backend(&self) -> Backend {
        self.profile.backend
    }

    /// The device that plans are made for.
    pub fn profile(&self) -> &DeviceProfile {
        &self.profile
    }

    /// The demands on plans.
    pub fn options(&self) -> PlanOptions {
        self.options
    }

    /// Where this context's kernels are launched.
    pub(crate) fn kernel_device(&self) -> Result<KernelDevice, Error> {
        match self.backend() {
            Backend::Metal => Ok(KernelDevice::Metal),
            Backend::Cuda => Ok(KernelDevice::Cuda),
            Backend::Sim => Ok(KernelDevice::Sim(match &self.simulator {
                Some(simulator) => Arc::clone(simulator),
                None => simulator::shared()?,
            })),
            backend @ Backend::Cpu => {
                let reason = "kernels are for GPUs and the simulator".to_owned();
                Err(mlx_op::Error::Unavailable { backend, reason }.into())
            }
        }
    }

    /// The context of the innermost [`with_context`] on this thread, else the process's.
    pub fn current() -> Arc<Self> {
        SCOPED
            .with_borrow(|scopes| scopes.last().cloned())
            .unwrap_or_else(|| Arc::clone(DEFAULT.get_or_init(|| Arc::new(Self::detect()))))
    }

    /// Makes this the process's context, unless an operation has already settled it.
    ///
    /// # Errors
    ///
    /// Gives the context back when there already is one.
    pub fn set_default(self) -> Result<(), Self> {
        DEFAULT
            .set(Arc::new(self))
            .map_err(|context| (*context).clone())
    }
}

/// Runs `scope` with `context` in force for operations that this thread builds meanwhile.
pub fn with_context<R>(context: &Arc<Context>, scope: impl FnOnce() -> R) -> R {
    struct Leave;
    impl Drop for Leave {
        fn drop(&mut self) {
            SCOPED.with_borrow_mut(Vec::pop);
        }
    }
    SCOPED.with_borrow_mut(|scopes| scopes.push(Arc::clone(context)));
    let _leave = Leave;
    scope()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn invariant() -> Arc<Context> {
        let options = PlanOptions {
            batch_invariant: true,
            ..PlanOptions::default()
        };
        Arc::new(Context::new(Backend::Cpu).unwrap().with_options(options))
    }

    #[test]
    fn scopes_nest_and_end_also_after_a_panic() {
        let outer = Arc::new(Context::new(Backend::Sim).unwrap());
        with_context(&outer, || {
            assert_eq!(Context::current().backend(), Backend::Sim);
            let panicked = std::panic::catch_unwind(|| {
                with_context(&invariant(), || {
                    assert!(Context::current().options().batch_invariant);
                    panic!("leave");
                });
            });
            assert!(panicked.is_err());
            assert_eq!(Context::current().backend(), Backend::Sim);
        });
        assert!(!Context::current().options().batch_invariant);
    }

    #[test]
    fn a_context_s_own_simulator_runs_its_kernels() {
        struct Refuses;
        impl Simulator for Refuses {
            fn run(&self, call: &mlx_op::SimLaunch<'_>, _: &mut [&mut [u8]]) -> Result<(), String> {
                Err(format!("{} refused", call.name))
            }
        }
        let context = Context::new(Backend::Sim).unwrap();
        let context = Arc::new(context.with_simulator(Arc::new(Refuses)));
        let logits = mlx_rs::Array::from_slice(&[1.0_f32, 2.0], &[1, 2]);
        let tokens = with_context(&context, || crate::ops::normalized_argmax(&logits).unwrap());
        let error = tokens.eval().unwrap_err().to_string();
        assert!(error.contains("normalized_argmax_tiles refused"), "{error}");
    }

    #[test]
    fn a_missing_back_end_is_an_error() {
        for backend in Backend::ALL {
            assert_eq!(
                Context::new(backend).is_ok(),
                backend.is_available(),
                "{backend}"
            );
        }
    }
}
