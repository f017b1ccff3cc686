//! Nanoseconds of a call by the crate of Rust.
use add::{Error, Inputs, Model, Outputs, View};
use std::time::Instant;

fn least(mut call: impl FnMut() -> Result<(), Error>) -> Result<f64, Error> {
    let mut best = f64::MAX;
    for _ in 0..60 {
        let start = Instant::now();
        for _ in 0..20000 {
            call()?;
        }
        best = best.min(start.elapsed().as_nanos() as f64 / 20000.0);
    }
    Ok(best)
}

fn main() -> Result<(), Error> {
    let mut session = Model::open("")?.session(1)?;
    let inputs = Inputs { x: View::new(&[1.0], &[1]), y: View::new(&[2.0], &[1]) };
    let mut outputs = Outputs::default();
    let reused = least(|| session.run_into(&inputs, &mut outputs))?;
    let fresh = least(|| session.run(&inputs).map(drop))?;
    println!("{reused:.1} {fresh:.1} {:.0}", outputs.z.data()[0]);
    Ok(())
}
