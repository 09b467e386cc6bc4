//! A module through a safetensors file and back.

use half::f16;
use safetensors::{Dtype, SafeTensors, serialize, tensor::TensorView};
use trellis_codec::{Axis, Contract, Error, Format, Geometry, Layout, TrellisModule};

fn module() -> TrellisModule {
    let format = Format::new(3, 12, 256).unwrap();
    let geometry = Geometry::new(format, Axis::Output, Layout::BlockPairs, 3, 512).unwrap();
    let codes = (0..geometry.words() as u32)
        .map(|i| i.wrapping_mul(2_654_435_761))
        .collect();
    let scales = [0.5, -1.0, 0.0].map(f16::from_f32).to_vec();
    TrellisModule::new(geometry, codes, scales).unwrap()
}

#[test]
fn a_module_survives_a_file() {
    let module = module();
    let bytes = serialize(module.tensors("model.layers.0.mlp.down_proj"), None).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    assert_eq!(
        file.tensor("model.layers.0.mlp.down_proj.weight")
            .unwrap()
            .shape(),
        [1, 3, 48]
    );
    let entry = module.geometry().entry();
    let read = TrellisModule::read(&file, "model.layers.0.mlp.down_proj", &entry).unwrap();
    assert_eq!(read, module);
    assert_eq!(read.decode(Contract::Exact).unwrap().len(), 3 * 512);
}

#[test]
fn missing_and_mistyped_tensors_are_named() {
    let module = module();
    let entry = module.geometry().entry();
    let [codes, scales] = module.tensors("p");
    let read = |tensors: Vec<(String, TensorView<'_>)>| {
        let bytes = serialize(tensors, None).unwrap();
        TrellisModule::read(&SafeTensors::deserialize(&bytes).unwrap(), "p", &entry)
    };
    let bytes = |tensor: &trellis_codec::ModuleTensor| safetensors::View::data(tensor).into_owned();
    let (code_bytes, scale_bytes) = (bytes(&codes.1), bytes(&scales.1));
    let weight = || {
        (
            "p.weight".to_owned(),
            TensorView::new(Dtype::U32, vec![1, 3, 48], &code_bytes).unwrap(),
        )
    };
    let scale = |dtype, bytes| {
        (
            "p.scales".to_owned(),
            TensorView::new(dtype, vec![3], bytes).unwrap(),
        )
    };

    let error = read(vec![weight()]).unwrap_err();
    assert_eq!(
        error,
        Error::MissingTensor {
            module: "p".into(),
            tensor: "scales"
        }
    );
    assert!(error.to_string().contains("p.scales"));
    let error = read(vec![scale(Dtype::F16, &scale_bytes)]).unwrap_err();
    assert_eq!(
        error,
        Error::MissingTensor {
            module: "p".into(),
            tensor: "weight"
        }
    );
    let error = read(vec![weight(), scale(Dtype::BF16, &scale_bytes)]).unwrap_err();
    assert_eq!(error, Error::ScalesDtype { found: Dtype::BF16 });
}

#[test]
fn parts_that_do_not_fit_are_refused() {
    let geometry = *module().geometry();
    let codes = vec![0; geometry.words()];
    assert!(matches!(
        TrellisModule::new(geometry, codes[1..].to_vec(), vec![]),
        Err(Error::Length { .. })
    ));
    assert!(matches!(
        TrellisModule::new(geometry, codes, vec![]),
        Err(Error::Length { .. })
    ));
}
