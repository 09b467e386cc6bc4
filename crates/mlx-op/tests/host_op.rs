//! Host operations as nodes of MLX graphs.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use half::{bf16, f16};
use mlx_op::{Element, Error, HostError, HostOp, OutputSpec};
use mlx_rs::{Array, Dtype, StreamOrDevice};

/// A node that adds one to every element of a float32 array.
fn add_one(x: &Array) -> Array {
    let outputs = [OutputSpec::new(x.shape(), Dtype::Float32)];
    let mut arrays = HostOp::new("add_one")
        .apply(&[x], &outputs, |inputs, outputs| {
            let x = inputs[0].as_slice::<f32>()?;
            for (y, x) in outputs[0].as_mut_slice::<f32>()?.iter_mut().zip(x) {
                *y = x + 1.0;
            }
            Ok(())
        })
        .unwrap();
    arrays.remove(0)
}

fn floats(values: &[f32], shape: &[i32]) -> Array {
    Array::from_slice(values, shape)
}

/// Counts how often it is dropped.
struct DropCounter(Arc<AtomicUsize>);

impl Drop for DropCounter {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn nodes_compose_with_stock_operations() {
    let x = floats(&[1.0, 2.0, 3.0], &[3]);
    let y = add_one(&(&add_one(&(&x * 2.0)) + 10.0));
    assert_eq!(y.as_slice::<f32>(), [14.0, 16.0, 18.0]);
}

#[test]
fn nothing_runs_before_evaluation() {
    let runs = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&runs);
    let x = floats(&[1.0], &[1]);
    let y = HostOp::new("count")
        .apply(
            &[&x],
            &[OutputSpec::new([1], Dtype::Float32)],
            move |_, _| {
                seen.fetch_add(1, Ordering::SeqCst);
                Ok(())
            },
        )
        .unwrap();
    assert_eq!(runs.load(Ordering::SeqCst), 0);
    y[0].eval().unwrap();
    y[0].eval().unwrap();
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

#[test]
fn several_outputs_of_different_shape_and_type() {
    let x = floats(&[3.0, -1.0, 2.0], &[3]);
    let outputs = [
        OutputSpec::new([], Dtype::Float32),
        OutputSpec::new([1, 3], Dtype::Uint32),
    ];
    let results = HostOp::new("sum_and_order")
        .apply(&[&x], &outputs, |inputs, outputs| {
            let x = inputs[0].as_slice::<f32>()?;
            outputs[0].as_mut_slice::<f32>()?[0] = x.iter().sum();
            let mut order: Vec<u32> = (0..x.len() as u32).collect();
            order.sort_by(|&a, &b| x[a as usize].total_cmp(&x[b as usize]));
            outputs[1].as_mut_slice::<u32>()?.copy_from_slice(&order);
            Ok(())
        })
        .unwrap();
    assert_eq!(results[0].item_exact::<f32>(), 4.0);
    assert_eq!(results[1].shape(), [1, 3]);
    assert_eq!(results[1].as_slice::<u32>(), [1, 2, 0]);
}

#[test]
fn strided_and_broadcast_inputs_arrive_row_contiguous() {
    let x = floats(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3]);
    let transposed = x.transpose().unwrap();
    assert_eq!(
        add_one(&transposed).as_slice::<f32>(),
        [2.0, 5.0, 3.0, 6.0, 4.0, 7.0]
    );
    let broadcast = mlx_rs::ops::broadcast_to(floats(&[7.0, 8.0], &[2, 1]), &[2, 3]).unwrap();
    assert_eq!(
        add_one(&broadcast).as_slice::<f32>(),
        [8.0, 8.0, 8.0, 9.0, 9.0, 9.0]
    );
}

#[test]
fn a_contiguous_view_at_an_offset_is_not_copied() {
    use mlx_rs::ops::indexing::IndexOp;
    let x = floats(&[1.0, 2.0, 3.0, 4.0, 5.0], &[5]);
    let copied = HostOp::new("copied")
        .apply(
            &[&x.index(1..)],
            &[OutputSpec::new([4], Dtype::Float32)],
            |inputs, outputs| {
                assert!(!inputs[0].was_copied());
                outputs[0]
                    .as_mut_slice::<f32>()?
                    .copy_from_slice(inputs[0].as_slice()?);
                Ok(())
            },
        )
        .unwrap();
    assert_eq!(copied[0].as_slice::<f32>(), [2.0, 3.0, 4.0, 5.0]);
}

#[test]
fn every_element_type_passes_through_unchanged() {
    macro_rules! check {
        ($type:ty, $values:expr) => {{
            let values: [$type; 2] = $values;
            let x = Array::from_slice(&values, &[2]);
            let outputs = [OutputSpec::new([2], <$type as Element>::DTYPE)];
            let y = HostOp::new("copy").apply(&[&x], &outputs, |inputs, outputs| {
                let copy = outputs[0].as_mut_slice::<$type>()?;
                copy.copy_from_slice(inputs[0].as_slice::<$type>()?);
                assert_eq!(inputs[0].as_bytes(), outputs[0].as_mut_bytes());
                Ok(())
            });
            assert_eq!(y.unwrap()[0].as_slice::<$type>(), values);
        }};
    }
    check!(f16, [f16::from_f32(1.5), f16::NEG_INFINITY]);
    check!(bf16, [bf16::from_f32(-2.5), bf16::MAX]);
    check!(f32, [1.0e-40, f32::INFINITY]);
    check!(u8, [0, u8::MAX]);
    check!(u16, [0, u16::MAX]);
    check!(u32, [0, u32::MAX]);
    check!(u64, [0, u64::MAX]);
    check!(i8, [i8::MIN, i8::MAX]);
    check!(i16, [i16::MIN, i16::MAX]);
    check!(i32, [i32::MIN, i32::MAX]);
    check!(i64, [i64::MIN, i64::MAX]);
}

#[test]
fn empty_arrays_are_empty_slices() {
    let x = Array::from_slice::<f32>(&[], &[0, 4]);
    let y = add_one(&x);
    y.eval().unwrap();
    assert_eq!(y.shape(), [0, 4]);
}

#[test]
fn an_error_becomes_the_error_of_eval_and_later_work_goes_on() {
    let x = floats(&[1.0], &[1]);
    let y = HostOp::new("fails")
        .apply(&[&x], &[OutputSpec::new([1], Dtype::Float32)], |_, _| {
            Err(HostError::failed("the reason"))
        })
        .unwrap();
    let error = y[0].eval().unwrap_err();
    assert!(error.what().contains("the reason"), "{error}");
    assert_eq!(add_one(&x).as_slice::<f32>(), [2.0]);
}

#[test]
fn a_panic_becomes_the_error_of_eval() {
    let x = floats(&[1.0], &[1]);
    let y = HostOp::new("panics")
        .apply(&[&x], &[OutputSpec::new([1], Dtype::Float32)], |_, _| {
            panic!("out of luck")
        })
        .unwrap();
    let error = y[0].eval().unwrap_err();
    assert!(error.what().contains("panicked: out of luck"), "{error}");
}

#[test]
fn a_wrong_slice_type_names_both_types() {
    let x = floats(&[1.0], &[1]);
    let y = HostOp::new("wrong_type")
        .apply(
            &[&x],
            &[OutputSpec::new([1], Dtype::Float32)],
            |inputs, _| inputs[0].as_slice::<u32>().map(|_| ()),
        )
        .unwrap();
    let error = y[0].eval().unwrap_err();
    assert!(
        error
            .what()
            .contains("expected an array of Uint32, found Float32"),
        "{error}"
    );
}

#[test]
fn the_closure_is_dropped_once_evaluated_or_not() {
    for evaluate in [true, false] {
        let drops = Arc::new(AtomicUsize::new(0));
        let guard = DropCounter(Arc::clone(&drops));
        let x = floats(&[1.0], &[1]);
        let y = HostOp::new("guarded")
            .apply(
                &[&x],
                &[OutputSpec::new([1], Dtype::Float32)],
                move |_, _| {
                    let _held = &guard;
                    Ok(())
                },
            )
            .unwrap();
        if evaluate {
            y[0].eval().unwrap();
        }
        drop(y);
        // The stream's thread may still hold the task that it has just run.
        add_one(&x).eval().unwrap();
        assert_eq!(drops.load(Ordering::SeqCst), 1, "evaluated: {evaluate}");
    }
}

#[test]
fn a_refused_node_drops_its_closure() {
    let drops = Arc::new(AtomicUsize::new(0));
    let guard = DropCounter(Arc::clone(&drops));
    let x = floats(&[1.0], &[1]);
    let result = HostOp::new("refused").apply(&[&x], &[], move |_, _| {
        let _held = &guard;
        Ok(())
    });
    assert!(matches!(result, Err(Error::NoOutputs { .. })));
    assert_eq!(drops.load(Ordering::SeqCst), 1);
}

#[test]
fn negative_shapes_are_refused() {
    let x = floats(&[1.0], &[1]);
    let result = HostOp::new("negative").apply(
        &[&x],
        &[OutputSpec::new([2, -1], Dtype::Float32)],
        |_, _| Ok(()),
    );
    let error = result.unwrap_err().to_string();
    assert!(
        error.contains("[2, -1]") && error.contains("negative"),
        "{error}"
    );
}

#[test]
fn threads_evaluate_their_own_graphs() {
    let threads: Vec<_> = (0..4)
        .map(|thread| {
            std::thread::spawn(move || {
                for step in 0..50 {
                    let value = (thread * 100 + step) as f32;
                    let y = add_one(&floats(&[value], &[1]));
                    assert_eq!(y.as_slice::<f32>(), [value + 1.0]);
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
}

#[test]
fn a_chosen_cpu_stream_is_used() {
    let stream = StreamOrDevice::new(mlx_rs::Stream::new_with_device(&mlx_rs::Device::cpu()));
    let y = mlx_rs::with_stream(stream.as_ref(), || add_one(&floats(&[1.0], &[1])));
    assert_eq!(y.as_slice::<f32>(), [2.0]);
}

#[test]
fn inputs_outlive_the_caller_s_handles() {
    let y = {
        let x = floats(&[1.0; 4096], &[4096]);
        add_one(&add_one(&x))
    };
    assert!(y.as_slice::<f32>().iter().all(|&value| value == 3.0));
}

/// A node that counts up the element at `index`, and gives the sum of what was there before.
fn count_up(x: &Array, index: usize) -> (Array, Array) {
    let mut results = HostOp::new("count_up")
        .update(
            &[],
            &[x],
            &[OutputSpec::new([], Dtype::Float32)],
            move |_, outputs| {
                let [x, sum] = outputs else {
                    return Err(HostError::failed("expected two outputs"));
                };
                let x = x.as_mut_slice::<f32>()?;
                sum.as_mut_slice::<f32>()?[0] = x.iter().sum();
                x[index] += 1.0;
                Ok(())
            },
        )
        .unwrap();
    let sum = results.pop().unwrap();
    (results.pop().unwrap(), sum)
}

#[test]
fn an_update_leaves_what_others_still_hold() {
    let old = floats(&[1.0, 2.0, 3.0], &[3]);
    let (new, sum) = count_up(&old, 1);
    assert_eq!(new.as_slice::<f32>(), [1.0, 3.0, 3.0]);
    assert_eq!(sum.item_exact::<f32>(), 6.0);
    assert_eq!(old.as_slice::<f32>(), [1.0, 2.0, 3.0]);
}

#[test]
fn an_update_of_a_strided_view_has_the_view_s_elements() {
    let old = floats(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3]);
    let view = old.transpose().unwrap();
    let (new, _) = count_up(&view, 1);
    drop(view);
    assert_eq!(new.shape(), [3, 2]);
    assert_eq!(new.as_slice::<f32>(), [1.0, 5.0, 2.0, 5.0, 3.0, 6.0]);
    assert_eq!(old.as_slice::<f32>(), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
}

#[test]
fn a_chain_of_updates_stays_in_one_buffer() {
    let mut x = floats(&[0.0; 1024], &[1024]);
    x.eval().unwrap();
    let address = x.as_slice::<f32>().as_ptr();
    let mut sums = Vec::new();
    for step in 0..5 {
        let (new, sum) = count_up(&x, step);
        x = new;
        sums.push(sum);
    }
    x.eval().unwrap();
    assert_eq!(x.as_slice::<f32>().as_ptr(), address);
    assert_eq!(x.as_slice::<f32>()[..6], [1.0, 1.0, 1.0, 1.0, 1.0, 0.0]);
    for (step, sum) in sums.iter().enumerate() {
        assert_eq!(sum.item_exact::<f32>(), step as f32);
    }
}

#[test]
fn a_view_into_a_larger_array_is_updated_in_a_copy() {
    use mlx_rs::ops::indexing::IndexOp;
    let old = floats(&[1.0, 2.0, 3.0, 4.0], &[4]);
    let (new, _) = count_up(&old.index(1..3), 0);
    assert_eq!(new.as_slice::<f32>(), [3.0, 3.0]);
    assert_eq!(old.as_slice::<f32>(), [1.0, 2.0, 3.0, 4.0]);
}
