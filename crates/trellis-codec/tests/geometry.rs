//! Every row of the validation of a coded module, in both layouts.

use safetensors::Dtype;
use trellis_codec::{Axis, Error, Format, Geometry, Layout, ModuleEntry, TrellisEntry};

fn entry(bits: u32, axis: u32) -> ModuleEntry {
    let block = TrellisEntry {
        state_bits: 12,
        code: "1mad".into(),
        axis,
        interleave: None,
    };
    ModuleEntry {
        bits,
        group_size: 256,
        mode: "trellis".into(),
        trellis: Some(block),
    }
}

fn with(change: impl FnOnce(&mut ModuleEntry, &mut TrellisEntry)) -> ModuleEntry {
    let mut entry = entry(3, 0);
    let mut block = entry.trellis.take().unwrap();
    change(&mut entry, &mut block);
    entry.trellis = Some(block);
    entry
}

fn derive(entry: &ModuleEntry, codes: &[usize], scales: usize) -> Result<Geometry, Error> {
    Geometry::derive(entry, Dtype::U32, codes, &[scales])
}

#[test]
fn row_major_codes_on_both_axes() {
    for bits in 1..=8 {
        let words = 2 * 8 * bits as usize;
        let along_input = derive(&entry(bits, 1), &[5, words], 5).unwrap();
        assert_eq!((along_input.rows(), along_input.cols()), (5, 512));
        assert_eq!(
            (along_input.output_features(), along_input.input_features()),
            (5, 512)
        );
        assert_eq!(
            (along_input.blocks_per_row(), along_input.words_per_row()),
            (2, words)
        );
        assert_eq!(along_input.codes_shape(), [5, words]);
        assert_eq!(along_input.entry(), entry(bits, 1));
        let along_output = derive(&entry(bits, 0), &[5, words], 5).unwrap();
        assert_eq!(
            (
                along_output.output_features(),
                along_output.input_features()
            ),
            (512, 5)
        );
        assert!((along_output.bits_per_weight() - (f64::from(bits) + 16.0 / 512.0)).abs() < 1e-12);
    }
}

#[test]
fn interleaved_codes_are_the_row_major_geometry_and_a_mark() {
    let paired = derive(&entry(3, 0), &[4, 7, 48], 7).unwrap();
    let rowwise = derive(&entry(3, 0), &[7, 192], 7).unwrap();
    assert_eq!(paired.layout(), Layout::BlockPairs);
    assert_eq!(paired.with_layout(Layout::Rows).unwrap(), rowwise);
    assert_eq!(paired.codes_shape(), [4, 7, 48]);
}

#[test]
fn marked_pairs_of_any_width() {
    for bits in 1..=8 {
        let mut marked = entry(bits, 0);
        marked.trellis.as_mut().unwrap().interleave = Some(2);
        let geometry = derive(&marked, &[3, 2, 16 * bits as usize], 2).unwrap();
        assert_eq!(
            (geometry.cols(), geometry.layout()),
            (1536, Layout::BlockPairs)
        );
        let written = geometry.entry();
        assert_eq!(derive(&written, &geometry.codes_shape(), 2), Ok(geometry));
    }
}

#[test]
fn entries_of_other_kinds_are_refused() {
    let affine = with(|entry, _| entry.mode = "affine".into());
    assert!(matches!(
        derive(&affine, &[4, 48], 4),
        Err(Error::NotTrellis {
            has_block: true,
            ..
        })
    ));
    let blockless = ModuleEntry {
        trellis: None,
        ..entry(3, 1)
    };
    assert!(matches!(
        derive(&blockless, &[4, 48], 4),
        Err(Error::NotTrellis {
            has_block: false,
            ..
        })
    ));
    let hybrid = with(|_, block| block.code = "hyb".into());
    assert_eq!(
        derive(&hybrid, &[4, 48], 4),
        Err(Error::UnknownCode {
            found: "hyb".into()
        })
    );
}

#[test]
fn parameters_out_of_range_are_refused() {
    let bits = |bits| derive(&entry(bits, 1), &[4, 48], 4);
    assert_eq!(bits(0), Err(Error::Bits { found: 0 }));
    assert_eq!(bits(9), Err(Error::Bits { found: 9 }));
    let state_bits = |l| derive(&with(|_, block| block.state_bits = l), &[4, 48], 4);
    assert_eq!(state_bits(3), Err(Error::StateBits { found: 3, bits: 3 }));
    assert_eq!(state_bits(17), Err(Error::StateBits { found: 17, bits: 3 }));
    assert_eq!(
        derive(&entry(3, 2), &[4, 48], 4),
        Err(Error::Axis { found: 2 })
    );
    let blocks = |t| derive(&with(|entry, _| entry.group_size = t), &[4, 48], 4);
    assert_eq!(blocks(0), Err(Error::Block { found: 0 }));
}

#[test]
fn codes_must_be_uint32_in_both_layouts() {
    for shape in [&[4, 48][..], &[1, 4, 48]] {
        let error = Geometry::derive(&entry(3, 0), Dtype::I32, shape, &[4]);
        assert_eq!(error, Err(Error::CodesDtype { found: Dtype::I32 }));
    }
}

#[test]
fn row_major_shapes_are_checked() {
    for shape in [&[][..], &[48], &[1, 1, 4, 48]] {
        assert_eq!(
            derive(&entry(3, 0), shape, 4),
            Err(Error::Rank { rank: shape.len() })
        );
    }
    assert_eq!(
        derive(&entry(3, 1), &[4, 49], 4),
        Err(Error::PartialSymbol { words: 49, bits: 3 })
    );
    assert_eq!(
        derive(&entry(3, 1), &[4, 27], 4),
        Err(Error::PartialBlock {
            cols: 288,
            block: 256
        })
    );
    let odd_block = with(|entry, _| entry.group_size = 16);
    let error = Error::BlockBits {
        block: 16,
        bits: 3,
        bits_per_block: 48,
    };
    assert_eq!(derive(&odd_block, &[4, 3], 4), Err(error));
    assert!(matches!(
        derive(&entry(3, 1), &[4, usize::MAX], 4),
        Err(Error::TooLarge { .. })
    ));
    assert!(matches!(
        derive(&entry(3, 1), &[usize::MAX, 48], usize::MAX),
        Err(Error::TooLarge { .. })
    ));
}

#[test]
fn unmarked_pairs_must_be_the_three_bit_format() {
    let refused = |entry: &ModuleEntry, shape: [usize; 3]| match derive(entry, &shape, shape[1]) {
        Err(error @ Error::Interleaved { .. }) => error.to_string(),
        other => panic!("{other:?}"),
    };
    assert!(refused(&entry(2, 0), [1, 4, 32]).contains("k = 2"));
    assert!(refused(&entry(3, 1), [1, 4, 48]).contains("axis"));
    assert!(refused(&with(|_, block| block.state_bits = 10), [1, 4, 48]).contains("L = 10"));
    assert!(refused(&with(|entry, _| entry.group_size = 128), [1, 4, 48]).contains("T = 128"));
    assert!(refused(&entry(3, 0), [1, 4, 24]).contains("48"));
    refused(&entry(3, 0), [0, 4, 48]);
    refused(&entry(3, 0), [1, 0, 48]);
}

#[test]
fn marks_and_shapes_must_agree() {
    let mark = |value| with(|_, block| block.interleave = Some(value));
    assert!(matches!(
        derive(&mark(4), &[1, 4, 48], 4),
        Err(Error::Interleaved { .. })
    ));
    assert!(matches!(
        derive(&mark(2), &[4, 48], 4),
        Err(Error::Interleaved { .. })
    ));
    assert!(derive(&mark(2), &[1, 4, 48], 4).is_ok());
}

#[test]
fn scales_are_one_per_stored_row() {
    for (codes, rows) in [(&[4, 96][..], 4), (&[2, 4, 48], 4)] {
        let error = derive(&entry(3, 0), codes, 5).unwrap_err();
        assert_eq!(
            error,
            Error::Scales {
                found: vec![5],
                rows
            }
        );
    }
    let two_dimensional = Geometry::derive(&entry(3, 1), Dtype::U32, &[4, 48], &[4, 1]);
    assert_eq!(
        two_dimensional,
        Err(Error::Scales {
            found: vec![4, 1],
            rows: 4
        })
    );
}

#[test]
fn geometries_built_by_hand_are_checked_too() {
    let format = Format::new(3, 12, 256).unwrap();
    let partial = Geometry::new(format, Axis::Input, Layout::Rows, 2, 300);
    assert_eq!(
        partial,
        Err(Error::PartialBlock {
            cols: 300,
            block: 256
        })
    );
    assert!(matches!(
        Geometry::new(format, Axis::Input, Layout::BlockPairs, 2, 512),
        Err(Error::Layout(_))
    ));
    let empty = Geometry::new(format, Axis::Input, Layout::Rows, 0, 0).unwrap();
    assert_eq!((empty.words(), empty.codes_shape()), (0, vec![0, 0]));
}
