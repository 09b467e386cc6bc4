//! Verification notices faults: broken copies of the shaders fail the declared cases, which are
//! also shown to launch every shader.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use mlx_kernels::shaders::{self, Shader};
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

/// Notes which kernels are launched and computes nothing.
#[derive(Default)]
struct Recorder(Mutex<BTreeSet<String>>);

impl Simulator for Recorder {
    fn run(&self, launch: &SimLaunch<'_>, _: &mut [&mut [u8]]) -> Result<(), String> {
        self.0.lock().unwrap().insert(launch.name.to_owned());
        Ok(())
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

fn under(simulator: Arc<dyn Simulator>) -> Context {
    Context::new(Backend::Sim)
        .expect("the simulator is everywhere")
        .with_simulator(simulator)
}

/// A few of a kernel's declared cases: of the products, those of one format whose codes straddle
/// words.
fn some_cases(kernel: Kernel) -> Vec<Case> {
    let mut cases = declared(Backend::Sim, Effort::Quick);
    cases.retain(|case| {
        let chosen = match case {
            Case::Affine(case) => case.shape.bits == 3 && case.shape.group == 64,
            _ => true,
        };
        case.kernel() == kernel && chosen
    });
    cases
}

/// What the cases of `kernel` come to with `there` replaced in `shader`.
fn failures(
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
fn caught(kernel: Kernel, shader: &Shader, there: &'static str, faulty: &'static str) {
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

#[test]
fn every_shader_is_launched_by_declared_cases() {
    for effort in [Effort::Quick, Effort::Full] {
        let recorder = Arc::new(Recorder::default());
        run(
            &declared(Backend::Sim, effort),
            &under(recorder.clone()),
            &|| {},
        );
        let launched = recorder.0.lock().unwrap();
        for shader in shaders::ALL {
            assert!(
                launched.contains(shader.name),
                "no case of {effort:?} runs {}: declare some",
                shader.name
            );
        }
    }
}

#[test]
fn sound_copies_hold() {
    let lane = "const int lane = int(";
    for (kernel, shader, there, same) in [
        (
            Kernel::AffineRows,
            shaders::AFFINE_ROWS,
            lane,
            "const int lane = 0 + int(",
        ),
        (
            Kernel::AffineMma,
            shaders::AFFINE_MMA,
            lane,
            "const int lane = 0 + int(",
        ),
        (
            Kernel::AffineSplitMma,
            shaders::AFFINE_SPLIT_MMA,
            lane,
            "const int lane = 0 + int(",
        ),
        (
            Kernel::AddRmsNorm,
            shaders::ADD_RMS_NORM,
            "squares = 0.0f",
            "squares = 0.0f + 0.0f",
        ),
    ] {
        assert_eq!(failures(kernel, &shader, there, same), []);
    }
}

#[test]
fn a_wrong_lane_map() {
    caught(
        Kernel::AffineMma,
        &shaders::AFFINE_MMA,
        "((lane >> 2) & 1) * 2 + ((lane >> 1) & 1)",
        "((lane >> 1) & 1) * 2 + ((lane >> 2) & 1)",
    );
    caught(
        Kernel::AffineSplitMma,
        &shaders::AFFINE_SPLIT_MMA,
        "((lane >> 3) & 1) * 4 + (lane & 1) * 2",
        "(lane & 1) * 4 + ((lane >> 3) & 1) * 2",
    );
    let (there, faulty) = ("int k = VPT * lane;", "int k = VPT * (lane | 1);");
    caught(Kernel::AffineRows, &shaders::AFFINE_ROWS, there, faulty);
}

#[test]
fn a_missing_barrier() {
    let barrier = "threadgroup_barrier(mem_flags::mem_threadgroup);";
    caught(
        Kernel::AffineSplitMma,
        &shaders::AFFINE_SPLIT_MMA,
        barrier,
        "",
    );
    let tiles = shaders::NORMALIZED_ARGMAX_TILES;
    caught(Kernel::NormalizedArgmax, &tiles, barrier, "");
    let (there, faulty) = (
        "threadgroup_barrier(mem_flags::mem_threadgroup);\n\nconst float inverse",
        "const float inverse",
    );
    caught(Kernel::AddRmsNorm, &shaders::ADD_RMS_NORM, there, faulty);
}

#[test]
fn a_column_past_the_outputs() {
    let (there, faulty) = ("if (first_output >= N) {", "if (first_output >= N + 8) {");
    caught(Kernel::AffineRows, &shaders::AFFINE_ROWS, there, faulty);
    caught(Kernel::AffineMma, &shaders::AFFINE_MMA, there, faulty);
}

#[test]
fn a_row_past_the_end() {
    let (there, faulty) = ("if (m < rows) {", "if (m <= rows) {");
    caught(
        Kernel::AffineSplitMma,
        &shaders::AFFINE_SPLIT_MMA,
        there,
        faulty,
    );
}

#[test]
fn a_skipped_tail() {
    let (there, faulty) = ("base < K; base +=", "base + 256 <= K; base +=");
    caught(Kernel::AffineMma, &shaders::AFFINE_MMA, there, faulty);
    caught(
        Kernel::AffineSplitMma,
        &shaders::AFFINE_SPLIT_MMA,
        there,
        faulty,
    );
    let (there, faulty) = ("k < K; k +=", "k + 32 * VPT <= K; k +=");
    caught(Kernel::AffineRows, &shaders::AFFINE_ROWS, there, faulty);
    let (there, faulty) = (
        "tile < uint(TILES); tile +=",
        "tile + 1u < uint(TILES); tile +=",
    );
    let last = shaders::NORMALIZED_ARGMAX_FINAL;
    caught(Kernel::NormalizedArgmax, &last, there, faulty);
}

#[test]
fn codes_that_straddle_words_are_cut() {
    let (there, faulty) = ("if (offset + BITS > 32) {", "if (false) {");
    caught(Kernel::AffineRows, &shaders::AFFINE_ROWS, there, faulty);
}

#[test]
fn a_rounding_at_the_wrong_place() {
    let norm = shaders::ADD_RMS_NORM;
    let (there, faulty) = (
        "T(float(weight[i]) * float(scaled))",
        "T(float(weight[i]) * (float(residual[row_start + i]) * inverse))",
    );
    caught(Kernel::AddRmsNorm, &norm, there, faulty);
    let (there, faulty) = (
        "const float value = float(sum);",
        "const float value = float(x[row_start + i]) + float(update[row_start + i]);",
    );
    caught(Kernel::AddRmsNorm, &norm, there, faulty);
    let (there, faulty) = (
        "candidate(float(score), id)",
        "candidate(float(logits[row * size_t(V) + size_t(id)]) - normalizer, id)",
    );
    let tiles = shaders::NORMALIZED_ARGMAX_TILES;
    caught(Kernel::NormalizedArgmax, &tiles, there, faulty);
}

#[test]
fn a_tie_for_the_wrong_token() {
    let tiles = shaders::NORMALIZED_ARGMAX_TILES;
    caught(
        Kernel::NormalizedArgmax,
        &tiles,
        "a.id < b.id",
        "a.id > b.id",
    );
}

#[test]
fn a_mask_that_chooses_or_allows_what_is_missing() {
    let mask = shaders::TOKEN_BITMASK;
    let (there, faulty) = (
        "T(float(logits[element]) + (allowed ? 0.0f : -INFINITY))",
        "allowed ? logits[element] : T(-INFINITY)",
    );
    caught(Kernel::TokenBitmask, &mask, there, faulty);
    let (there, faulty) = ("bool allowed = false;", "bool allowed = true;");
    caught(Kernel::TokenBitmask, &mask, there, faulty);
}
