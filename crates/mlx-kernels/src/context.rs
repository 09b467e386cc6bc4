//! What operations run on: chosen once, changeable for a scope.

use std::cell::RefCell;
use std::sync::{Arc, OnceLock};

use mlx_op::{Backend, DeviceProfile, KernelDevice};

use crate::affine::PlanOptions;
use crate::{Error, simulator};

/// The back end, the device and the demands that plans are made under.
#[derive(Debug, Clone)]
pub struct Context {
    profile: DeviceProfile,
    options: PlanOptions,
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
        })
    }

    /// A context for the best back end of this machine.
    pub fn detect() -> Self {
        let profile = DeviceProfile::detect(Backend::detect());
        Self {
            profile,
            options: PlanOptions::default(),
        }
    }

    /// The same context with other demands on plans.
    pub fn with_options(self, options: PlanOptions) -> Self {
        Self { options, ..self }
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
            Backend::Sim => Ok(KernelDevice::Sim(simulator::shared()?)),
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
