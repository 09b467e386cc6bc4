//! Writes GGUF files byte by byte, sound or not.

use half::f16;

const ALIGNMENT: usize = 32;

/// A GGUF file in the making.
#[derive(Clone)]
pub struct GgufBytes {
    pub version: u32,
    metadata: Vec<(String, Vec<u8>)>,
    tensors: Vec<(String, Vec<usize>, u32, Vec<u8>)>,
}

impl GgufBytes {
    pub fn new() -> Self {
        Self {
            version: 3,
            metadata: Vec::new(),
            tensors: Vec::new(),
        }
    }

    /// Sets a key, in the place of an earlier value if it has one.
    fn entry(&mut self, key: &str, code: u32, value: &[u8]) {
        let bytes = [&code.to_le_bytes()[..], value].concat();
        match self.metadata.iter_mut().find(|entry| entry.0 == key) {
            Some(entry) => entry.1 = bytes,
            None => self.metadata.push((key.to_owned(), bytes)),
        }
    }

    /// Lists a key a second time, with the value that it has.
    pub fn repeat(&mut self, key: &str) {
        let entry = self.metadata.iter().find(|entry| entry.0 == key);
        self.metadata.push(entry.unwrap().clone());
    }

    pub fn u32(&mut self, key: &str, value: u32) {
        self.entry(key, 4, &value.to_le_bytes());
    }

    pub fn f32(&mut self, key: &str, value: f32) {
        self.entry(key, 6, &value.to_le_bytes());
    }

    pub fn bool(&mut self, key: &str, value: bool) {
        self.entry(key, 7, &[u8::from(value)]);
    }

    pub fn text(&mut self, key: &str, value: &str) {
        self.entry(key, 8, &text_bytes(value));
    }

    pub fn texts(&mut self, key: &str, values: &[String]) {
        let mut bytes = list_head(8, values.len());
        bytes.extend(values.iter().flat_map(|value| text_bytes(value)));
        self.entry(key, 9, &bytes);
    }

    pub fn i32s(&mut self, key: &str, values: &[i32]) {
        let mut bytes = list_head(5, values.len());
        bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        self.entry(key, 9, &bytes);
    }

    /// A metadata list that claims more elements than the file holds.
    pub fn endless_list(&mut self, key: &str) {
        self.entry(key, 9, &list_head(4, usize::MAX / 2));
    }

    pub fn tensor(&mut self, name: &str, shape: &[usize], code: u32, data: Vec<u8>) {
        self.tensors
            .push((name.to_owned(), shape.to_vec(), code, data));
    }

    pub fn remove_tensor(&mut self, name: &str) {
        self.tensors.retain(|tensor| tensor.0 != name);
    }

    /// Changes what the directory says of a tensor, and not its data.
    pub fn edit_tensor(&mut self, name: &str, edit: impl FnOnce(&mut Vec<usize>, &mut u32)) {
        let tensor = self
            .tensors
            .iter_mut()
            .find(|tensor| tensor.0 == name)
            .unwrap();
        edit(&mut tensor.1, &mut tensor.2);
    }

    /// The whole file.
    pub fn finish(&self) -> Vec<u8> {
        let mut bytes = b"GGUF".to_vec();
        bytes.extend(self.version.to_le_bytes());
        bytes.extend((self.tensors.len() as u64).to_le_bytes());
        bytes.extend((self.metadata.len() as u64).to_le_bytes());
        for (key, value) in &self.metadata {
            bytes.extend(text_bytes(key));
            bytes.extend(value);
        }
        let mut offset = 0;
        for (name, shape, code, data) in &self.tensors {
            bytes.extend(text_bytes(name));
            bytes.extend((shape.len() as u32).to_le_bytes());
            for &size in shape.iter().rev() {
                bytes.extend((size as u64).to_le_bytes());
            }
            bytes.extend(code.to_le_bytes());
            bytes.extend((offset as u64).to_le_bytes());
            offset += data.len().next_multiple_of(ALIGNMENT);
        }
        for (_, _, _, data) in &self.tensors {
            bytes.resize(bytes.len().next_multiple_of(ALIGNMENT), 0);
            bytes.extend(data);
        }
        bytes
    }
}

fn text_bytes(text: &str) -> Vec<u8> {
    let mut bytes = (text.len() as u64).to_le_bytes().to_vec();
    bytes.extend(text.as_bytes());
    bytes
}

fn list_head(code: u32, count: usize) -> Vec<u8> {
    let mut bytes = code.to_le_bytes().to_vec();
    bytes.extend((count as u64).to_le_bytes());
    bytes
}

/// A `Q4_1` block: scale, minimum, then 16 bytes whose low halves are the first 16 weights.
/// Returns its bytes and the weights that it holds.
pub fn q4_1(values: &[f32]) -> (Vec<u8>, Vec<f32>) {
    let min = values.iter().copied().fold(f32::INFINITY, f32::min);
    let max = values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let (scale, min) = (f16::from_f32((max - min) / 15.0), f16::from_f32(min));
    let code = |value: f32| {
        ((value - min.to_f32()) / scale.to_f32())
            .round()
            .clamp(0.0, 15.0)
    };
    let codes: Vec<u8> = values.iter().map(|&value| code(value) as u8).collect();
    let mut bytes = [scale.to_le_bytes(), min.to_le_bytes()].concat();
    bytes.extend((0..16).map(|i| codes[i] | (codes[i + 16] << 4)));
    let held = codes
        .iter()
        .map(|&code| f32::from(code) * scale.to_f32() + min.to_f32())
        .collect();
    (bytes, held)
}

/// A `Q8_0` block: scale, then 32 signed bytes. Returns its bytes and the weights that it holds.
pub fn q8_0(values: &[f32]) -> (Vec<u8>, Vec<f32>) {
    let largest = values
        .iter()
        .fold(0.0, |largest: f32, value| largest.max(value.abs()));
    let scale = f16::from_f32(largest / 127.0);
    let code = |value: f32| (value / scale.to_f32()).round().clamp(-127.0, 127.0) as i8;
    let codes: Vec<i8> = values.iter().map(|&value| code(value)).collect();
    let mut bytes = scale.to_le_bytes().to_vec();
    bytes.extend(codes.iter().map(|code| code.to_le_bytes()[0]));
    (
        bytes,
        codes
            .iter()
            .map(|&code| f32::from(code) * scale.to_f32())
            .collect(),
    )
}
