//! Kernels: what is checked before MLX sees a launch, and the simulated way of running one.

use std::sync::{Arc, Mutex};

use mlx_op::{
    Backend, Error, Kernel, KernelDevice, KernelSource, KernelText, Launch, OutputSpec, SimLaunch,
    Simulator, TemplateArg,
};
use mlx_rs::{Array, Dtype};

fn source() -> KernelSource {
    KernelSource {
        name: "double".to_owned(),
        inputs: vec!["x".to_owned()],
        outputs: vec!["y".to_owned()],
        metal: Some(KernelText {
            header: String::new(),
            body: "uint i = thread_position_in_grid.x; y[i] = 2 * x[i];".to_owned(),
        }),
        cuda: None,
        ensure_row_contiguous: true,
    }
}

fn launch() -> Launch {
    Launch {
        grid: [4, 1, 1],
        threadgroup: [4, 1, 1],
        template: vec![("T".to_owned(), TemplateArg::Dtype(Dtype::Float32))],
        outputs: vec![OutputSpec::new([4], Dtype::Float32)],
        init_value: None,
    }
}

/// Doubles float32 inputs, and keeps the names and sizes that it was given.
#[derive(Default)]
struct Doubling(Mutex<Vec<String>>);

impl Simulator for Doubling {
    fn run(&self, launch: &SimLaunch<'_>, outputs: &mut [&mut [u8]]) -> Result<(), String> {
        self.0
            .lock()
            .unwrap()
            .push(format!("{} {:?}", launch.name, launch.grid));
        if launch.inputs[0].shape == [3] {
            return Err("three is refused".to_owned());
        }
        for (out, x) in outputs[0]
            .chunks_exact_mut(4)
            .zip(launch.inputs[0].bytes.chunks_exact(4))
        {
            let value = f32::from_ne_bytes(x.try_into().unwrap());
            out.copy_from_slice(&(2.0 * value).to_ne_bytes());
        }
        Ok(())
    }
}

fn simulate(inputs: &[&Array], launch: &Launch) -> Result<Vec<Array>, Error> {
    let device = KernelDevice::Sim(Arc::new(Doubling::default()));
    // SAFETY: the simulator touches only the slices it is given.
    unsafe {
        Kernel::new(source())
            .unwrap()
            .apply(&device, inputs, launch)
    }
}

fn refusal(change: impl FnOnce(&mut Launch)) -> String {
    let mut launch = launch();
    change(&mut launch);
    let x = Array::from_slice(&[1.0_f32; 4], &[4]);
    simulate(&[&x], &launch).unwrap_err().to_string()
}

#[test]
fn a_simulated_kernel_is_a_lazy_node() {
    let simulator = Arc::new(Doubling::default());
    let device = KernelDevice::Sim(Arc::clone(&simulator) as Arc<dyn Simulator>);
    let kernel = Kernel::new(source()).unwrap();
    let x = Array::from_slice(&[1.0_f32, 2.0, 3.0, 4.0], &[4]);
    // SAFETY: the simulator touches only the slices it is given.
    let y = unsafe { kernel.apply(&device, &[&x], &launch()) }.unwrap();
    assert!(simulator.0.lock().unwrap().is_empty());
    assert_eq!(y[0].as_slice::<f32>(), [2.0, 4.0, 6.0, 8.0]);
    assert_eq!(*simulator.0.lock().unwrap(), ["double [4, 1, 1]"]);
}

#[test]
fn a_simulator_s_error_is_the_error_of_eval() {
    let x = Array::from_slice(&[1.0_f32; 3], &[3]);
    let mut launch = launch();
    launch.outputs = vec![OutputSpec::new([3], Dtype::Float32)];
    let y = simulate(&[&x], &launch).unwrap();
    let error = y[0].eval().unwrap_err();
    assert!(error.what().contains("three is refused"), "{error}");
}

#[test]
fn wrong_counts_are_refused() {
    let error = simulate(&[], &launch()).unwrap_err().to_string();
    assert!(error.contains("got 0 inputs, expected 1"), "{error}");
    let error = refusal(|launch| launch.outputs.clear());
    assert!(error.contains("got 0 outputs, expected 1"), "{error}");
}

#[test]
fn sizes_that_are_not_positive_are_refused() {
    let error = refusal(|launch| launch.grid = [4, 0, 1]);
    assert!(error.contains("grid [4, 0, 1]"), "{error}");
    let error = refusal(|launch| launch.threadgroup = [4, 1, -1]);
    assert!(error.contains("threadgroup [4, 1, -1]"), "{error}");
}

#[test]
fn groups_beyond_1024_threads_are_refused() {
    let error = refusal(|launch| launch.threadgroup = [32, 8, 5]);
    assert!(error.contains("1280 threads: at most 1024"), "{error}");
    let error = refusal(|launch| launch.threadgroup = [i32::MAX, i32::MAX, 1]);
    assert!(error.contains("at most 1024"), "{error}");
}

#[test]
fn template_names_that_clash_or_are_negative_are_refused() {
    let error = refusal(|launch| launch.template[0].0 = "x".to_owned());
    assert!(
        error.contains("\"x\" names both an input and a template parameter"),
        "{error}"
    );
    let error = refusal(|launch| launch.template.push(launch.template[0].clone()));
    assert!(error.contains("\"T\" names both"), "{error}");
    let error = refusal(|launch| launch.template[0] = ("N".to_owned(), TemplateArg::Int(-3)));
    assert!(error.contains("N is -3"), "{error}");
    let error = refusal(|launch| launch.template[0].0 = "a b".to_owned());
    assert!(error.contains("\"a b\" is not an identifier"), "{error}");
}

#[test]
fn negative_output_shapes_are_refused() {
    let error = refusal(|launch| launch.outputs[0].shape = vec![-4]);
    assert!(error.contains("[-4]"), "{error}");
}

#[test]
fn sources_are_checked_when_built() {
    let refused = |change: fn(&mut KernelSource)| {
        let mut source = source();
        change(&mut source);
        Kernel::new(source).unwrap_err().to_string()
    };
    assert!(refused(|source| source.outputs.clear()).contains("at least one output"));
    assert!(refused(|source| source.name = "2x".to_owned()).contains("\"2x\""));
    assert!(refused(|source| source.inputs[0] = String::new()).contains("\"\""));
    assert!(refused(|source| source.outputs[0] = "x".to_owned()).contains("both"));
    assert!(refused(|source| source.metal.as_mut().unwrap().body.push('µ')).contains("'µ'"));
}

#[test]
fn a_missing_back_end_is_named() {
    let x = Array::from_slice(&[1.0_f32; 4], &[4]);
    let kernel = Kernel::new(source()).unwrap();
    for (backend, device) in [
        (Backend::Metal, KernelDevice::Metal),
        (Backend::Cuda, KernelDevice::Cuda),
    ] {
        if backend.is_available() {
            continue;
        }
        // SAFETY: nothing is launched.
        let error = unsafe { kernel.apply(&device, &[&x], &launch()) }
            .unwrap_err()
            .to_string();
        assert!(
            error.contains(&format!("back end {backend} is not available")),
            "{error}"
        );
    }
}
