//! Buffers and template arguments: how they arrive in a body.

mod common;

use common::{Job, kernel, simulator};
use half::{bf16, f16};
use metal_sim::{DType, Element, Input, KernelSource, Launch, OutputSpec, TemplateArg};

const COPY: &str = "uint i = thread_position_in_grid.x; out[i] = a[i];";

fn copied<T: Element>(values: &[T]) -> Vec<T> {
    let count = values.len();
    Job::new(count, count, T::DTYPE)
        .input(Input::of(values, &[count]))
        .run(COPY)
}

#[test]
fn every_dtype_arrives_and_leaves_unchanged() {
    macro_rules! copies {
        ($($values:expr),* $(,)?) => {$({
            let values = $values.to_vec();
            assert_eq!(copied(&values), values);
        })*};
    }
    copies!(
        [1.5f32, -0.0, f32::INFINITY],
        [f16::from_f32(1.5), f16::MAX],
        [bf16::from_f32(-3.0), bf16::MIN_POSITIVE],
        [0u8, 255],
        [-128i8, 127],
        [0u16, 65535],
        [i16::MIN, i16::MAX],
        [0u32, u32::MAX],
        [i32::MIN, i32::MAX],
        [0u64, u64::MAX],
        [i64::MIN, i64::MAX],
    );
    let truth = [0u8, 1, 1, 0];
    let job = Job::new(4, 4, DType::Bool).input(Input::new(&truth, &[4], DType::Bool));
    assert_eq!(
        job.run::<u8>("uint i = thread_position_in_grid.x; out[i] = !a[i];"),
        [1, 0, 0, 1]
    );
}

/// The generated source for one input of the given shape.
fn source_for(shape: &[usize], body: &str) -> String {
    let a = vec![0.0f32; shape.iter().product()];
    let job = Job::new(1, 1, DType::F32).input(Input::of(&a, shape));
    job.launch(|launch| simulator().generated_source(&kernel(1, body), launch))
        .unwrap()
}

#[test]
fn address_space_follows_the_size() {
    let body = "out[0] = a[0];";
    assert!(source_for(&[7], body).contains("const constant float* a"));
    assert!(source_for(&[2, 3], body).contains("const constant float* a"));
    assert!(source_for(&[8], body).contains("const device float* a"));
    assert!(source_for(&[], "out[0] = a;").contains("const constant float& a"));
}

#[test]
fn single_value_is_a_reference() {
    let a = [42.0f32];
    assert_eq!(
        Job::new(1, 1, DType::F32)
            .input(Input::of(&a, &[]))
            .run::<f32>("out[0] = a + float(thread_position_in_grid.x);"),
        [42.0]
    );
}

#[test]
fn shape_strides_and_rank_come_by_mention() {
    let a: Vec<f32> = (0..24u8).map(f32::from).collect();
    let job = Job::new(1, 7, DType::I32).input(Input::of(&a, &[2, 3, 4]));
    let body = "
        if (thread_position_in_grid.x > 0) return;
        out[0] = a_ndim;
        for (int i = 0; i < 3; i++) { out[1 + i] = a_shape[i]; out[4 + i] = int(a_strides[i]); }";
    assert_eq!(job.run::<i32>(body), [3, 2, 3, 4, 12, 4, 1]);
    let source = source_for(&[2, 3, 4], "out[0] = a_shape[0]; // a_ndim");
    assert!(
        source.contains("const constant int* a_shape")
            && source.contains("const constant int& a_ndim")
    );
    assert!(!source.contains("a_strides"));
    assert!(!source_for(&[], "out[0] = a; // a_shape").contains("int* a_shape"));
}

#[test]
fn strides_of_the_caller_reach_the_index_helper() {
    let a: Vec<f32> = (0..12u8).map(f32::from).collect();
    let mut input = Input::of(&a, &[4, 3]);
    input.strides = Some(vec![1, 4]);
    let job = Job::new(12, 12, DType::F32).input(input);
    let out = job.run::<f32>(
        "uint i = thread_position_in_grid.x;
         out[i] = a[elem_to_loc(i, a_shape, a_strides, a_ndim)];",
    );
    let expected: Vec<f32> = (0..12).map(|i| a[i / 3 + i % 3 * 4]).collect();
    assert_eq!(out, expected);
}

#[test]
fn template_arguments_of_each_kind() {
    let a = [1.0f32, 1.0 + 1.0 / 1024.0];
    for (dtype, flag, expected) in [
        (DType::F32, false, [3.0, 3.0 + 3.0 / 1024.0]),
        (DType::F16, false, [3.0, 3.0 + 4.0 / 1024.0]),
        (DType::BF16, true, [-3.0, -3.0]),
    ] {
        let job = Job::new(2, 2, DType::F32)
            .input(Input::of(&a, &[2]))
            .template("T", TemplateArg::DType(dtype))
            .template("FACTOR", TemplateArg::Int(3))
            .template("NEGATE", TemplateArg::Bool(flag));
        let out = job.run::<f32>(
            "uint i = thread_position_in_grid.x;
             T product = T(a[i]) * T(FACTOR);
             if (NEGATE) product = -product;
             out[i] = float(product);",
        );
        assert_eq!(out, expected, "{dtype:?}");
    }
}

#[test]
fn header_functions_take_pointers_of_every_space() {
    let header = "
        #include <metal_stdlib>
        using namespace metal;
        #define FACTOR 2.0
        constant float table[2] = {1.0, 10.0};
        template <typename T>
        METAL_FUNC float twice(threadgroup const float* shared, const device T* p, thread float& side, uint i) {
            side = table[1];
            return FACTOR * (shared[i] + float(p[i]));
        }";
    let a: Vec<f16> = (0..8u8).map(|i| f16::from_f32(f32::from(i))).collect();
    let source = KernelSource {
        header: header.to_owned(),
        ..kernel(
            1,
            "threadgroup float shared[8];
             uint i = thread_position_in_threadgroup.x;
             shared[i] = 0.5f;
             threadgroup_barrier(mem_flags::mem_threadgroup);
             float side = 0.0f;
             threadgroup float* view = shared;
             out[i] = twice(view, a, side, i) + side;",
        )
    };
    let out = Job::new(8, 8, DType::F32)
        .input(Input::of(&a, &[8]))
        .run_on(simulator(), &source)
        .unwrap();
    let expected: Vec<f32> = (0..8u8)
        .map(|i| 2.0 * (f32::from(i) + 0.5) + 10.0)
        .collect();
    assert_eq!(out.to_vec::<f32>().unwrap(), expected);
    assert_eq!(out.to_vec::<f16>(), None);
}

#[test]
fn several_outputs_in_the_callers_memory() {
    let source = KernelSource {
        name: "pair".to_owned(),
        output_names: vec!["low".to_owned(), "high".to_owned()],
        body: "uint i = thread_position_in_grid.x; low[i] = i; high[i] = half(i) + 100;".to_owned(),
        ..KernelSource::default()
    };
    let outputs = [
        OutputSpec::new(&[5], DType::U8),
        OutputSpec::new(&[5], DType::F16),
    ];
    let launch = Launch {
        inputs: &[],
        outputs: &outputs,
        template: &[],
        grid: [5, 1, 1],
        threadgroup: [2, 1, 1],
        init_value: None,
    };
    let (mut low, mut high) = ([0u8; 5], [0u8; 10]);
    simulator()
        .run_into(&source, &launch, &mut [&mut low, &mut high])
        .unwrap();
    assert_eq!(low, [0, 1, 2, 3, 4]);
    let expected: Vec<u8> = (100..105)
        .flat_map(|i| f16::from_f32(i as f32).to_ne_bytes())
        .collect();
    assert_eq!(high, expected[..]);
}

#[test]
fn initial_value_fills_what_is_not_written() {
    for (dtype, expected) in [(DType::F32, 7.0f32), (DType::BF16, 7.0)] {
        let mut job = Job::new(1, 3, dtype);
        job.init_value = Some(7.25);
        let out = job
            .run_on(
                simulator(),
                &kernel(0, "out[thread_position_in_grid.x] = 1.0f;"),
            )
            .unwrap();
        match dtype {
            DType::F32 => assert_eq!(out.to_vec::<f32>().unwrap(), [1.0, 7.25, 7.25]),
            _ => assert_eq!(
                out.to_vec::<bf16>().unwrap()[1],
                bf16::from_f32(expected + 0.25)
            ),
        }
    }
}
