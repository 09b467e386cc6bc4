//! Short ways to write kernels in tests.
#![allow(dead_code, reason = "each test binary uses some of them")]

use std::sync::OnceLock;

use metal_sim::{
    Config, DType, Element, Input, KernelSource, Launch, Order, OutputBuf, OutputSpec, SimError,
    Simulator, TemplateArg,
};

/// One simulator for all tests of a binary.
pub fn simulator() -> &'static Simulator {
    static SIMULATOR: OnceLock<Simulator> = OnceLock::new();
    SIMULATOR
        .get_or_init(|| Simulator::new(Config::default()).expect("a C++ compiler is installed"))
}

/// A simulator that runs threads in another order.
pub fn ordered(order: Order) -> Simulator {
    Simulator::new(Config {
        order,
        ..Config::default()
    })
    .expect("a C++ compiler is installed")
}

/// A kernel with inputs `a`, `b`, ... as many as `inputs`, and one output `out`.
pub fn kernel(inputs: usize, body: &str) -> KernelSource {
    let names = ["a", "b", "c", "d"];
    KernelSource {
        name: "test".to_owned(),
        input_names: names[..inputs].iter().map(ToString::to_string).collect(),
        output_names: vec!["out".to_owned()],
        body: body.to_owned(),
        header: String::new(),
    }
}

/// A launch of one group of `threads`, with `elements` outputs.
pub struct Job<'a> {
    pub inputs: Vec<Input<'a>>,
    pub output: OutputSpec,
    pub template: Vec<(&'a str, TemplateArg)>,
    pub grid: [usize; 3],
    pub threadgroup: [usize; 3],
    pub init_value: Option<f32>,
}

impl<'a> Job<'a> {
    pub fn new(threads: usize, elements: usize, dtype: DType) -> Self {
        Self {
            inputs: Vec::new(),
            output: OutputSpec::new(&[elements], dtype),
            template: Vec::new(),
            grid: [threads, 1, 1],
            threadgroup: [threads, 1, 1],
            init_value: None,
        }
    }

    pub fn input(mut self, input: Input<'a>) -> Self {
        self.inputs.push(input);
        self
    }

    pub fn template(mut self, name: &'a str, value: TemplateArg) -> Self {
        self.template.push((name, value));
        self
    }

    pub fn launch<R>(&self, then: impl FnOnce(&Launch<'_>) -> R) -> R {
        then(&Launch {
            inputs: &self.inputs,
            outputs: std::slice::from_ref(&self.output),
            template: &self.template,
            grid: self.grid,
            threadgroup: self.threadgroup,
            init_value: self.init_value,
        })
    }

    pub fn run_on(
        &self,
        simulator: &Simulator,
        kernel: &KernelSource,
    ) -> Result<OutputBuf, SimError> {
        self.launch(|launch| simulator.run(kernel, launch))
            .map(|mut outputs| outputs.remove(0))
    }

    /// Runs a body on the shared simulator.
    pub fn run<T: Element>(&self, body: &str) -> Vec<T> {
        let kernel = kernel(self.inputs.len(), body);
        self.run_on(simulator(), &kernel)
            .unwrap_or_else(|error| panic!("{error}"))
            .to_vec()
            .expect("the output's type")
    }

    pub fn error(&self, body: &str) -> SimError {
        self.run_on(simulator(), &kernel(self.inputs.len(), body))
            .expect_err("the launch must fail")
    }
}
