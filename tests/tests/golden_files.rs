//! Every golden file loads, has the number of cases it should, and holds the tensors its cases name.

use integration_tests::golden;

const FILES: [(&str, usize); 15] = [
    ("affine_matmul_b2", 23),
    ("affine_matmul_b3", 23),
    ("affine_matmul_b4", 23),
    ("affine_matmul_b5", 23),
    ("affine_matmul_b6", 23),
    ("affine_matmul_b8", 23),
    ("affine_quantize", 54),
    ("normalized_argmax", 18),
    ("residual_rms_norm", 18),
    ("token_bitmask", 24),
    ("trellis_axis0", 21),
    ("trellis_axis0_interleaved", 4),
    ("trellis_axis1", 28),
    ("trellis_swiglu", 14),
    ("trellis_table", 1),
];

#[test]
fn every_case_has_its_tensors() {
    for (file, count) in FILES {
        let cases = golden::load(file);
        assert_eq!(cases.len(), count, "{file}");
        for case in &cases {
            for list in ["inputs", "outputs"] {
                for name in case.params[list]
                    .as_array()
                    .expect("a list of tensor names")
                {
                    let tensor = case.tensor(name.as_str().expect("a tensor name"));
                    let elements: usize = tensor.shape.iter().product();
                    let bits = tensor.dtype.bitsize();
                    assert_eq!(
                        tensor.bytes.len() * 8,
                        elements * bits,
                        "{}: {name}",
                        case.name
                    );
                }
            }
        }
    }
}
