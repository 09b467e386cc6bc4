//! The cache of compiled kernels, use in place, and use from several threads.

mod common;

use std::{fs, path::Path, thread};

use common::{Job, kernel, simulator};
use metal_sim::{Config, DType, Input, SimError, Simulator};

const BODY: &str = "uint i = thread_position_in_grid.x; out[i] = a[i] + 1.0f;";

fn in_dir(cache: &Path) -> Simulator {
    Simulator::new(Config {
        cache_dir: cache.to_owned(),
        ..Config::default()
    })
    .unwrap()
}

fn libraries(cache: &Path) -> Vec<String> {
    let name =
        |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
    fs::read_dir(cache).unwrap().map(name).collect()
}

#[test]
fn same_text_is_compiled_once_and_found_again() {
    let cache = tempfile::tempdir().unwrap();
    let a = [1.0f32; 8];
    let job = Job::new(8, 8, DType::F32).input(Input::of(&a, &[8]));
    for _ in 0..2 {
        let simulator = in_dir(cache.path());
        for _ in 0..2 {
            assert_eq!(
                job.run_on(&simulator, &kernel(1, BODY))
                    .unwrap()
                    .to_vec::<f32>()
                    .unwrap(),
                [2.0; 8]
            );
        }
    }
    let files = libraries(cache.path());
    assert_eq!(files.len(), 1, "{files:?}");
    job.run_on(
        &in_dir(cache.path()),
        &kernel(1, &BODY.replace("1.0f", "2.0f")),
    )
    .unwrap();
    assert_eq!(libraries(cache.path()).len(), 2);
}

#[test]
fn failed_compilation_leaves_nothing_behind() {
    let cache = tempfile::tempdir().unwrap();
    let job = Job::new(1, 1, DType::F32);
    job.run_on(&in_dir(cache.path()), &kernel(0, "nonsense"))
        .unwrap_err();
    assert!(libraries(cache.path()).is_empty());
}

#[test]
fn damaged_file_is_an_error_that_names_it() {
    let cache = tempfile::tempdir().unwrap();
    let a = [1.0f32; 8];
    let job = Job::new(8, 8, DType::F32).input(Input::of(&a, &[8]));
    job.run_on(&in_dir(cache.path()), &kernel(1, BODY)).unwrap();
    let file = cache.path().join(&libraries(cache.path())[0]);
    fs::remove_file(&file).unwrap();
    fs::write(&file, "not a library").unwrap();
    let error = job
        .run_on(&in_dir(cache.path()), &kernel(1, BODY))
        .unwrap_err();
    assert!(
        matches!(error, SimError::Load { ref path, .. } if *path == file),
        "{error}"
    );
}

#[test]
fn cache_directory_that_cannot_be() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let config = Config {
        cache_dir: file.path().join("below"),
        ..Config::default()
    };
    let error = Simulator::new(config)
        .err()
        .expect("a file is no directory");
    assert!(matches!(error, SimError::Cache { .. }), "{error}");
}

#[test]
fn in_place_and_strict_agree() {
    let relaxed = Simulator::new(Config {
        strict: false,
        ..Config::default()
    })
    .unwrap();
    let a: Vec<f32> = (0..40u8).map(f32::from).collect();
    // The second slice starts off the alignment, and is copied.
    for a in [&a[..32], &a[1..33]] {
        let job = Job::new(32, 32, DType::F32).input(Input::of(a, &[32]));
        let expected: Vec<f32> = a.iter().map(|x| x + 1.0).collect();
        for simulator in [&relaxed, simulator()] {
            assert_eq!(
                job.run_on(simulator, &kernel(1, BODY))
                    .unwrap()
                    .to_vec::<f32>()
                    .unwrap(),
                expected
            );
        }
        let error = job.run_on(
            &relaxed,
            &kernel(
                1,
                &format!("{BODY} // {{ }}").replace("out[i]", "if (i != 4) out[i]"),
            ),
        );
        assert!(matches!(error, Err(SimError::Unwritten { first: 4, .. })));
    }
}

#[test]
fn shared_by_threads() {
    let cache = tempfile::tempdir().unwrap();
    let simulator = in_dir(cache.path());
    thread::scope(|scope| {
        for t in 0..4u8 {
            let simulator = &simulator;
            scope.spawn(move || {
                let a = vec![f32::from(t); 3000];
                let mut job = Job::new(1, 3000, DType::F32).input(Input::of(&a, &[3000]));
                (job.grid, job.threadgroup) = ([3000, 1, 1], [64, 1, 1]);
                let out = job
                    .run_on(simulator, &kernel(1, BODY))
                    .unwrap()
                    .to_vec::<f32>()
                    .unwrap();
                assert!(out.iter().all(|&x| x == f32::from(t) + 1.0));
            });
        }
    });
    assert_eq!(libraries(cache.path()).len(), 1);
}
