//! Kernels and launches that are refused before anything runs.

mod common;

use common::{Job, kernel, simulator};
use metal_sim::{Config, DType, Input, KernelSource, SimError, Simulator, TemplateArg};

const BODY: &str = "out[thread_position_in_grid.x] = 1.0f;";

fn job() -> Job<'static> {
    Job::new(4, 4, DType::F32)
}

/// The error's text, which must name the kernel.
fn message(error: &SimError) -> String {
    let text = error.to_string();
    assert!(text.contains("kernel test"), "{text}");
    text
}

#[test]
fn wrong_counts() {
    let error = job().run_on(simulator(), &kernel(1, BODY)).unwrap_err();
    assert!(
        matches!(
            error,
            SimError::Count {
                what: "inputs",
                expected: 1,
                found: 0,
                ..
            }
        ),
        "{error}"
    );
    let two = KernelSource {
        output_names: vec!["out".into(), "more".into()],
        ..kernel(0, BODY)
    };
    let error = job().run_on(simulator(), &two).unwrap_err();
    assert!(
        matches!(
            error,
            SimError::Count {
                what: "outputs",
                expected: 2,
                found: 1,
                ..
            }
        ),
        "{error}"
    );
    let none = KernelSource {
        output_names: vec![],
        ..kernel(0, BODY)
    };
    let error = Job { ..job() }
        .launch(|launch| simulator().generated_source(&none, launch))
        .unwrap_err();
    assert!(matches!(error, SimError::NoOutputs { .. }), "{error}");
    let error = job()
        .launch(|launch| simulator().run_into(&kernel(0, BODY), launch, &mut []))
        .unwrap_err();
    assert!(
        matches!(
            error,
            SimError::Count {
                what: "output slices",
                expected: 1,
                found: 0,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn wrong_bytes_and_strides() {
    let a = [0u8; 10];
    let short = job().input(Input::new(&a, &[3], DType::F32));
    let error = short.run_on(simulator(), &kernel(1, BODY)).unwrap_err();
    assert!(
        message(&error).contains("a has 10 bytes; shape [3] of F32 takes 12"),
        "{error}"
    );
    let huge = job().input(Input::new(&a, &[usize::MAX, 2], DType::F32));
    let error = huge.run_on(simulator(), &kernel(1, BODY)).unwrap_err();
    assert!(
        matches!(
            error,
            SimError::Bytes {
                expected: usize::MAX,
                ..
            }
        ),
        "{error}"
    );
    let mut input = Input::new(&a, &[2, 5], DType::U8);
    input.strides = Some(vec![5]);
    let error = job()
        .input(input)
        .run_on(simulator(), &kernel(1, BODY))
        .unwrap_err();
    assert!(
        matches!(
            error,
            SimError::Strides {
                expected: 2,
                found: 1,
                ..
            }
        ),
        "{error}"
    );
    let error = job()
        .launch(|launch| simulator().run_into(&kernel(0, BODY), launch, &mut [&mut [0; 3]]))
        .unwrap_err();
    assert!(
        message(&error).contains("out has 3 bytes; shape [4] of F32 takes 16"),
        "{error}"
    );
    let mut empty = job();
    empty.output.shape = vec![usize::MAX, usize::MAX];
    assert!(matches!(empty.error(BODY), SimError::Bytes { .. }));
}

#[test]
fn zero_and_oversized_extents() {
    for axis in 0..3 {
        let mut zero = job();
        zero.grid[axis] = 0;
        assert!(message(&zero.error(BODY)).contains("grid is ["));
        let mut zero = job();
        zero.threadgroup[axis] = 0;
        assert!(message(&zero.error(BODY)).contains("threadgroup is ["));
    }
    let mut large = job();
    large.grid[1] = 1 << 33;
    assert!(matches!(
        large.error(BODY),
        SimError::Extent { what: "grid", .. }
    ));
    let mut many = job();
    many.threadgroup = [32, 32, 2];
    assert!(message(&many.error(BODY)).contains("2048 threads was asked for; the limit is 1024"));
}

#[test]
fn names() {
    let error = job()
        .run_on(
            simulator(),
            &KernelSource {
                name: "a-b".into(),
                ..kernel(0, BODY)
            },
        )
        .unwrap_err();
    assert!(
        matches!(
            error,
            SimError::InvalidName {
                what: "kernel name",
                ..
            }
        ),
        "{error}"
    );
    let input = [0.0f32];
    for name in ["", "2x", "a b"] {
        let source = KernelSource {
            input_names: vec![name.into()],
            ..kernel(1, BODY)
        };
        let error = job()
            .input(Input::of(&input, &[1]))
            .run_on(simulator(), &source)
            .unwrap_err();
        assert!(
            matches!(error, SimError::InvalidName { what: "input", .. }),
            "{error}"
        );
    }
    let clash = job().template("out", TemplateArg::Int(1)).error(BODY);
    assert!(message(&clash).contains("`out` is used twice"));
    let negative = job().template("N", TemplateArg::Int(-1)).error(BODY);
    assert!(message(&negative).contains("N is -1"));
}

#[test]
fn text_must_be_ascii() {
    let error = job().error("\n// naïve\n");
    assert!(
        matches!(
            error,
            SimError::NonAscii {
                what: "body",
                line: 2,
                ..
            }
        ),
        "{error}"
    );
    let source = KernelSource {
        header: "// µ".into(),
        ..kernel(0, BODY)
    };
    let error = job().run_on(simulator(), &source).unwrap_err();
    assert!(
        matches!(
            error,
            SimError::NonAscii {
                what: "header",
                line: 1,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn too_many_buffers() {
    let names: Vec<String> = (0..10).map(|i| format!("in{i}")).collect();
    let mentions: Vec<String> = names
        .iter()
        .map(|n| format!("// {n}_shape {n}_strides {n}_ndim\n"))
        .collect();
    let source = KernelSource {
        input_names: names,
        body: format!("{}{BODY}", mentions.concat()),
        ..kernel(0, "")
    };
    let a = [0.0f32];
    let job = (0..10).fold(job(), |job, _| job.input(Input::of(&a, &[1])));
    let error = job.run_on(simulator(), &source).unwrap_err();
    assert!(
        matches!(
            error,
            SimError::Buffers {
                found: 41,
                limit: 31,
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn compile_error_has_the_compilers_log() {
    let error = job().error("uint i = thread_position_in_grid.x;\nout[i] = undeclared_thing;");
    let text = message(&error);
    assert!(matches!(error, SimError::Compile { .. }));
    assert!(
        text.contains("undeclared_thing") && text.contains("body:2"),
        "{text}"
    );
    let source = KernelSource {
        header: "\n\nint broken(".into(),
        ..kernel(0, BODY)
    };
    let text = message(&job().run_on(simulator(), &source).unwrap_err());
    assert!(
        text.contains("header:3") || text.contains("generated:1"),
        "{text}"
    );
}

#[test]
fn threadgroup_declarations_that_cannot_be() {
    let error = job().error("\nthreadgroup float x = 1.0f;");
    assert!(message(&error).contains("body line 2"), "{error}");
    let body = "threadgroup float x[9000]; x[0] = 1.0f; out[thread_position_in_grid.x] = x[0];";
    let error = job().error(body);
    assert!(
        matches!(
            error,
            SimError::ThreadgroupMemory {
                wanted: 36000,
                limit: 32768,
                ..
            }
        ),
        "{error}"
    );
    let full = body.replace("9000", "8192");
    assert_eq!(job().run::<f32>(&full), [1.0; 4]);
}

#[test]
fn missing_compiler() {
    let config = Config {
        compiler: "no-such-compiler-here".into(),
        ..Config::default()
    };
    let error = Simulator::new(config)
        .err()
        .expect("there is no such program");
    assert!(
        error.to_string().contains("no-such-compiler-here"),
        "{error}"
    );
}
