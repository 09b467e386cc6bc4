//! Products by affine weights: problems, the float64 reference, bounds, and launches of the kernels.

use metal_sim::{DType, KernelSource, OutputSpec, SimError, Simulator, TemplateArg};
use mlx_kernels::shaders;

use super::random::Random;
use super::{Tensor, int, largest, round, run, smallest_subnormal, source, unit_roundoff};

pub const BITS: [usize; 6] = [2, 3, 4, 5, 6, 8];
pub const GROUPS: [usize; 3] = [32, 64, 128];

/// A kernel of the family, with how it divides the work where that is a choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernel {
    Rows,
    Mma,
    Split { tiles: usize, splits: usize },
}

pub const WIDE: Kernel = Kernel::Split {
    tiles: 2,
    splits: 2,
};
pub const NARROW: Kernel = Kernel::Split {
    tiles: 1,
    splits: 8,
};
/// Every kernel; N must be a multiple of 16 for all of them to take it.
pub const KERNELS: [Kernel; 4] = [Kernel::Rows, Kernel::Mma, WIDE, NARROW];

impl Kernel {
    pub fn source(self) -> KernelSource {
        source(match self {
            Self::Rows => &shaders::AFFINE_ROWS,
            Self::Mma => &shaders::AFFINE_MMA,
            Self::Split { .. } => &shaders::AFFINE_SPLIT_MMA,
        })
    }

    /// Whether the kernel takes so many rows.
    pub fn takes(self, rows: usize) -> bool {
        match self {
            Self::Rows => (2..=8).contains(&rows),
            Self::Mma => (1..=8).contains(&rows),
            Self::Split { .. } => rows >= 1,
        }
    }

    /// The float32 weight that the kernel multiplies with, or that a one-hot x makes of its sums.
    pub fn weight(self, code: u32, scale: f32, bias: f32, bits: usize) -> f32 {
        match self {
            Self::Rows | Self::Mma => scale.mul_add(code as f32, bias),
            Self::Split { .. } => {
                let levels = (1u32 << bits) as f32;
                let scaled = scale * levels;
                (1.0 + code as f32 / levels).mul_add(scaled, bias - scaled)
            }
        }
    }
}

/// A product: x `[m, k]`, codes `[n, k]`, scales and biases `[n, k / group]`. Values are exact in
/// their dtypes.
#[derive(Debug, Clone)]
pub struct Problem {
    pub m: usize,
    pub n: usize,
    pub k: usize,
    pub bits: usize,
    pub group: usize,
    pub dtype: DType,
    pub scale_dtype: DType,
    pub x: Vec<f32>,
    pub codes: Vec<u32>,
    pub scales: Vec<f32>,
    pub biases: Vec<f32>,
}

/// Extents and types of a problem.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    pub m: usize,
    pub n: usize,
    pub k: usize,
    pub bits: usize,
    pub group: usize,
    pub dtype: DType,
    pub scale_dtype: DType,
}

impl Shape {
    /// Scales in the dtype of x.
    pub fn new(m: usize, n: usize, k: usize, bits: usize, group: usize, dtype: DType) -> Self {
        Self {
            m,
            n,
            k,
            bits,
            group,
            dtype,
            scale_dtype: dtype,
        }
    }
}

impl Problem {
    /// Normally distributed x; weights of deviation about 0.02, with scales of both signs.
    pub fn random(shape: Shape, seed: u64) -> Self {
        let Shape {
            m,
            n,
            k,
            bits,
            group,
            dtype,
            scale_dtype,
        } = shape;
        let mut random = Random::new(seed ^ (bits * 1000 + group) as u64);
        let levels = (1u32 << bits) as f32;
        let x = random
            .normals(m * k)
            .into_iter()
            .map(|value| round(value, dtype))
            .collect();
        let codes = (0..n * k).map(|_| random.below(1 << bits)).collect();
        let (mut scales, mut biases) = (Vec::new(), Vec::new());
        for _ in 0..n * (k / group) {
            let sign = if random.below(2) == 0 { 1.0 } else { -1.0 };
            let scale = sign * 0.07 * (0.5 + random.unit()) / levels;
            scales.push(round(scale, scale_dtype));
            biases.push(round(
                -scale * levels * (0.4 + 0.2 * random.unit()),
                scale_dtype,
            ));
        }
        Self {
            m,
            n,
            k,
            bits,
            group,
            dtype,
            scale_dtype,
            x,
            codes,
            scales,
            biases,
        }
    }

    /// One scale and one bias everywhere, random codes, x all zero.
    pub fn uniform(shape: Shape, scale: f32, bias: f32, seed: u64) -> Self {
        let mut problem = Self::random(shape, seed);
        problem.scales.fill(round(scale, shape.scale_dtype));
        problem.biases.fill(round(bias, shape.scale_dtype));
        problem.x.fill(0.0);
        problem
    }

    /// The same weights with another x, of any number of rows.
    pub fn with_x(&self, x: Vec<f32>) -> Self {
        let x: Vec<f32> = x
            .into_iter()
            .map(|value| round(value, self.dtype))
            .collect();
        Self {
            m: x.len() / self.k,
            x,
            ..self.clone()
        }
    }

    /// The rows in `rows`.
    pub fn rows(&self, rows: std::ops::Range<usize>) -> Self {
        self.with_x(self.x[rows.start * self.k..rows.end * self.k].to_vec())
    }

    pub fn code(&self, n: usize, k: usize) -> u32 {
        self.codes[n * self.k + k]
    }

    /// Scale and bias of the group that holds k.
    pub fn affine(&self, n: usize, k: usize) -> (f32, f32) {
        let group = n * (self.k / self.group) + k / self.group;
        (self.scales[group], self.biases[group])
    }

    /// The bit stream of each row as words, least significant bit first.
    pub fn words(&self) -> Vec<u32> {
        let words = self.k * self.bits / 32;
        let mut packed = vec![0u32; self.n * words];
        for n in 0..self.n {
            for k in 0..self.k {
                for bit in 0..self.bits {
                    let at = k * self.bits + bit;
                    packed[n * words + at / 32] |= (self.code(n, k) >> bit & 1) << (at % 32);
                }
            }
        }
        packed
    }

    /// y in float64, row-major.
    pub fn reference(&self) -> Vec<f64> {
        self.sums(|_, q, scale, bias| scale * q + bias, |x| x)
    }

    /// How far from the reference each element of `kernel`'s result may be.
    pub fn bounds(&self, kernel: Kernel) -> Vec<f64> {
        let levels = f64::from(1u32 << self.bits);
        let sizes = self.sums(
            |_, q, scale, bias| match kernel {
                Kernel::Mma => (scale * q + bias).abs(),
                Kernel::Split { .. } => (scale * q + bias).abs() + (bias - levels * scale).abs(),
                Kernel::Rows => scale.abs() * q + bias.abs(),
            },
            f64::abs,
        );
        let order = (16.0 + (self.k as f64).sqrt()) * (-24f64).exp2();
        let (unit, floor) = (unit_roundoff(self.dtype), smallest_subnormal(self.dtype));
        self.reference()
            .iter()
            .zip(sizes)
            .map(|(y, size)| unit * y.abs() + order * size + floor)
            .collect()
    }

    fn sums(
        &self,
        weight: impl Fn(usize, f64, f64, f64) -> f64,
        of_x: impl Fn(f64) -> f64,
    ) -> Vec<f64> {
        let weights: Vec<f64> = (0..self.n * self.k)
            .map(|i| {
                let (n, k) = (i / self.k, i % self.k);
                let (scale, bias) = self.affine(n, k);
                weight(
                    i,
                    f64::from(self.codes[i]),
                    f64::from(scale),
                    f64::from(bias),
                )
            })
            .collect();
        let mut sums = Vec::with_capacity(self.m * self.n);
        for x in self.x.chunks_exact(self.k) {
            for w in weights.chunks_exact(self.k) {
                sums.push(x.iter().zip(w).map(|(&x, &w)| of_x(f64::from(x)) * w).sum());
            }
        }
        sums
    }

    /// Fails, naming the worst element, where `y` is outside the bounds of `kernel`.
    pub fn check(&self, kernel: Kernel, y: &[f32]) -> Result<(), String> {
        let reference = self.reference();
        for (i, ((&y, &expected), bound)) in y
            .iter()
            .zip(&reference)
            .zip(self.bounds(kernel))
            .enumerate()
        {
            let overflows = expected.abs() > largest(self.dtype)
                && f64::from(y) == expected.signum() * f64::INFINITY;
            if !(overflows || (f64::from(y) - expected).abs() <= bound) {
                let (m, n) = (i / self.n, i % self.n);
                return Err(format!(
                    "y[{m}, {n}] is {y}, expected {expected} within {bound:e}"
                ));
            }
        }
        Ok(())
    }

    /// Template arguments, grid and threadgroup.
    fn launch(&self, kernel: Kernel) -> (Vec<(&'static str, TemplateArg)>, [usize; 3], [usize; 3]) {
        let mut template = vec![
            ("T", TemplateArg::DType(self.dtype)),
            ("S", TemplateArg::DType(self.scale_dtype)),
        ];
        if !matches!(kernel, Kernel::Split { .. }) {
            template.push(("M", int(self.m)));
        }
        let sizes = [
            ("N", self.n),
            ("K", self.k),
            ("BITS", self.bits),
            ("GROUP", self.group),
        ];
        template.extend(sizes.map(|(name, value)| (name, int(value))));
        let (own, threads, groups, blocks) = match kernel {
            Kernel::Rows => (
                vec![("NR", 4), ("SGS", 2), ("VPT", 16)],
                64,
                self.n.div_ceil(8),
                1,
            ),
            Kernel::Mma => (vec![("SG_TG", 4), ("MT", 1)], 128, self.n.div_ceil(32), 1),
            Kernel::Split { tiles, splits } => {
                let own = vec![("TILES", tiles), ("SPLITS", splits)];
                (own, 32 * splits, self.n / (8 * tiles), self.m.div_ceil(8))
            }
        };
        template.extend(own.into_iter().map(|(name, value)| (name, int(value))));
        (template, [threads, groups, blocks], [threads, 1, 1])
    }

    /// y by `kernel`, in the given simulator, from the given source.
    pub fn run_with(
        &self,
        simulator: &Simulator,
        source: &KernelSource,
        kernel: Kernel,
    ) -> Result<Vec<f32>, SimError> {
        self.run_padded(simulator, source, kernel, 0)
    }

    /// y by `kernel` in an array of `surplus` more rows than x has. Every element then starts as 7.
    pub fn run_padded(
        &self,
        simulator: &Simulator,
        source: &KernelSource,
        kernel: Kernel,
        surplus: usize,
    ) -> Result<Vec<f32>, SimError> {
        let groups = [self.n, self.k / self.group];
        let inputs = [
            Tensor::floats(&self.x, &[self.m, self.k], self.dtype),
            Tensor::words(&self.words(), &[self.n, self.k * self.bits / 32]),
            Tensor::floats(&self.scales, &groups, self.scale_dtype),
            Tensor::floats(&self.biases, &groups, self.scale_dtype),
        ];
        let (template, grid, threadgroup) = self.launch(kernel);
        let output = OutputSpec::new(&[self.m + surplus, self.n], self.dtype);
        let inputs: Vec<&Tensor> = inputs.iter().collect();
        let init_value = (surplus > 0).then_some(7.0);
        let y = run(
            simulator,
            source,
            &inputs,
            &[output],
            &template,
            grid,
            threadgroup,
            init_value,
        )?;
        Ok(y[0].to_f32())
    }

    /// y by `kernel` as it ships.
    pub fn run(&self, kernel: Kernel) -> Vec<f32> {
        self.run_with(super::simulator(), &kernel.source(), kernel)
            .unwrap_or_else(|error| panic!("{kernel:?}, {}: {error}", self.title()))
    }

    /// Runs `kernel` and compares it with the reference.
    pub fn verify(&self, kernel: Kernel) {
        if let Err(difference) = self.check(kernel, &self.run(kernel)) {
            panic!("{kernel:?}, {}: {difference}", self.title());
        }
    }

    pub fn title(&self) -> String {
        let Self {
            m,
            n,
            k,
            bits,
            group,
            dtype,
            scale_dtype,
            ..
        } = self;
        format!("{bits} bits, group {group}, {m} x {k} by {n}, {dtype:?} with {scale_dtype:?}")
    }
}
