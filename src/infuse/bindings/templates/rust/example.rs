//! Runs the model: example [FOLDER [SIZE...]]. FOLDER has weights.bin, and may have inputs, the elements of input number i
//! in input<i>.bin (zeros without it; an optional input is absent then); outputs are written beside them. The sizes are
//! those of symbols: @SYMBOL_NAMES@.
use std::error::Error;
use std::path::{Path, PathBuf};

use @NAME@::{Element, Inputs, Model, Tensor};

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let folder = PathBuf::from(words.first().map_or(".", |word| word));
    let mut symbols = [2i64; @SYMBOLS@];
    for (symbol, word) in symbols.iter_mut().zip(words.iter().skip(1)) {
        *symbol = word.parse()?;
    }
    let shapes = @NAME@::shapes(&symbols)?;
    let _ = &shapes;
@READ@
    let inputs = Inputs {
@FIELDS@
    };
    let model = Model::open(folder.join("weights.bin"))?;
    let mut session = model.session(2)?;
    let outputs = session.run(&inputs)?;
@WRITE@
    Ok(())
}

fn read<T: Element>(folder: &Path, number: usize, shape: &[usize], optional: bool) -> Option<Tensor<T>> {
    let mut tensor = Tensor::zeros(shape);
    match std::fs::read(folder.join(format!("input{number}.bin"))) {
        Ok(content) => {
            let data = tensor.data_mut();
            let bytes = std::mem::size_of_val(data).min(content.len());
            unsafe { std::ptr::copy_nonoverlapping(content.as_ptr(), data.as_mut_ptr() as *mut u8, bytes) };
        }
        Err(_) if optional => return None,
        Err(_) => {}
    }
    Some(tensor)
}

fn write<T: Element>(folder: &Path, number: usize, tensor: &Tensor<T>) -> std::io::Result<()> {
    let sizes: String = tensor.shape().iter().map(|size| format!(" {size}")).collect();
    println!("output {number}:{sizes}");
    let data = tensor.data();
    let bytes = unsafe { std::slice::from_raw_parts(data.as_ptr() as *const u8, std::mem::size_of_val(data)) };
    std::fs::write(folder.join(format!("output{number}.bin")), bytes)
}
