//! Broken copies of shaders, and what verification makes of them.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use mlx_kernels::shaders::Shader;
use mlx_kernels::{Backend, Context, simulator};
use mlx_op::{KernelText, SimLaunch, Simulator};
use mlxk::verify::{Case, Effort, Failure, Kernel, declared, run, simulator_config};

/// Runs one kernel with a part of its text replaced, in its body or its headers.
struct Altered {
    simulator: Arc<dyn Simulator>,
    shader: &'static str,
    there: &'static str,
    faulty: &'static str,
    /// Whether the kernel was launched at all.
    launched: AtomicBool,
}

impl Simulator for Altered {
    fn run(&self, launch: &SimLaunch<'_>, outputs: &mut [&mut [u8]]) -> Result<(), String> {
        if launch.name != self.shader {
            return self.simulator.run(launch, outputs);
        }
        self.launched.store(true, Ordering::Relaxed);
        let alter = |text: &str| text.replace(self.there, self.faulty);
        let text = KernelText {
            header: alter(&launch.text.header),
            body: alter(&launch.text.body),
        };
        let launch = SimLaunch {
            text: &text,
            ..*launch
        };
        self.simulator.run(&launch, outputs)
    }
}

/// The simulator of `mlxk verify`. Compiled kernels stay in the target directory.
fn strict() -> Arc<dyn Simulator> {
    static SHARED: OnceLock<Arc<dyn Simulator>> = OnceLock::new();
    let make = || {
        let config = metal_sim::Config {
            cache_dir: Path::new(env!("CARGO_TARGET_TMPDIR")).join("metal-sim"),
            ..simulator_config()
        };
        simulator::with_config(config).expect("a host compiler")
    };
    Arc::clone(SHARED.get_or_init(make))
}

pub fn under(simulator: Arc<dyn Simulator>) -> Context {
    Context::new(Backend::Sim)
        .expect("the simulator is everywhere")
        .with_simulator(simulator)
}

/// A few of a kernel's declared cases: of the products, those of a format whose codes straddle words.
fn some_cases(kernel: Kernel) -> Vec<Case> {
    let mut cases = declared(Backend::Sim, Effort::Quick);
    cases.retain(|case| {
        let chosen = match case {
            Case::Affine(case) => case.shape.bits == 3 && case.shape.group == 64,
            Case::Trellis(case) => case.shape.bits == 3,
            Case::TrellisGateup(case) => case.shape.bits == 3,
            _ => true,
        };
        case.kernel() == kernel && chosen
    });
    cases
}

/// What the cases of `kernel` come to with `there` replaced in `shader`.
pub fn failures(
    kernel: Kernel,
    shader: &Shader,
    there: &'static str,
    faulty: &'static str,
) -> Vec<Failure> {
    let text = shader.metal();
    let found = text.header.matches(there).count() + text.body.matches(there).count();
    assert_eq!(found, 1, "`{there}` stands once in {}", shader.name);
    let altered = Arc::new(Altered {
        simulator: strict(),
        shader: shader.name,
        there,
        faulty,
        launched: AtomicBool::new(false),
    });
    let cases = some_cases(kernel);
    let outcomes = run(&cases, &under(altered.clone()), &|| {});
    assert!(altered.launched.load(Ordering::Relaxed), "{}", shader.name);
    assert_eq!(outcomes.len(), cases.len());
    let results = outcomes.into_iter().map(|outcome| outcome.result);
    results.filter_map(Result::err).collect()
}

/// Fails unless a case fails, for another reason than that the text does not compile.
pub fn caught(kernel: Kernel, shader: &Shader, there: &'static str, faulty: &'static str) {
    let failures = failures(kernel, shader, there, faulty);
    assert!(
        !failures.is_empty(),
        "`{faulty}` in {kernel} goes unnoticed"
    );
    for failure in failures {
        let text = failure.to_string();
        assert!(!text.contains("compile"), "`{faulty}`: {text}");
    }
}
