//! Verification notices faults: broken copies of the shaders fail the declared cases, which are
//! also shown to launch every shader.

mod faults;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use faults::{caught, failures, under};
use mlx_kernels::Backend;
use mlx_kernels::shaders;
use mlx_op::{SimLaunch, Simulator};
use mlxk::verify::{Effort, Kernel, declared, run};

/// Notes which kernels are launched and computes nothing.
#[derive(Default)]
struct Recorder(Mutex<BTreeSet<String>>);

impl Simulator for Recorder {
    fn run(&self, launch: &SimLaunch<'_>, _: &mut [&mut [u8]]) -> Result<(), String> {
        self.0.lock().unwrap().insert(launch.name.to_owned());
        Ok(())
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
