//! How a session conducts itself where something is wrong, and with several threads: weights wrong_weights.
use conduct::{BFloat16, Code, Error, Float16, Inputs, Model, Outputs, View};

fn number(code: Code) -> i32 {
    match code {
        Code::BadInput => -1,
        Code::OutOfMemory => 1,
        Code::BadData => 2,
        Code::Cancelled => 3,
        Code::BadOptions => 4,
        Code::Refused => 5,
        Code::Other(other) => other,
    }
}

fn failing<T>(what: &str, result: Result<T, Error>) {
    match result {
        Ok(_) => println!("{what}: nothing failed"),
        Err(error) => println!("{what}: {} {error}", number(error.code)),
    }
}

fn main() -> Result<(), Error> {
    let words: Vec<String> = std::env::args().collect();
    let (x, y, places) = ([1f32; 8], [10f64; 4], [2i64, 0]);
    let good = Inputs {
        x: View::new(&x, &[2, 4]),
        y: y[..].into(),
        times: View::new(&[3], &[]),
        places: places[..].into(),
    };
    let model = Model::open(&words[1])?;
    let mut session = model.session(2)?;
    let outputs = session.run(&good)?;
    let (z, w, picked) = (outputs.z.data(), outputs.w.data(), outputs.picked.data());
    println!("run: {:.1} {:.1} {:.1}", z[7], w[3], picked[0]);
    failing("formula", session.run(&Inputs { y: y[..3].into(), ..good.clone() }));
    failing("size", session.run(&Inputs { x: View::new(&x, &[4, 2]), ..good.clone() }));
    failing("axes", session.run(&Inputs { x: View::new(&x, &[8]), ..good.clone() }));
    failing("elements", session.run(&Inputs { x: View::new(&x[..7], &[2, 4]), ..good.clone() }));
    failing("shape", session.run(&Inputs { x: x[..].into(), ..good.clone() }));
    failing("huge", session.run(&Inputs { x: View::new(&x, &[i64::MAX as usize, 4]), ..good.clone() }));
    failing("data", session.run(&Inputs { places: [3][..].into(), ..good.clone() }));
    failing("weights", Model::open(&words[2]));
    failing("content", Model::from_bytes(b"other"));
    failing("absent", Model::open("/none"));

    let sums: Vec<f32> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let mut own = model.session(1).unwrap();
                    let mut reused = Outputs::default();
                    let runs = (0..200).map(|_| {
                        own.run_into(&good, &mut reused).unwrap();
                        reused.z.data()[0]
                    });
                    runs.sum()
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    println!("threads: {:.1} {:.1}", sums[0], sums[1]);

    let canceller = session.canceller();
    let stopper = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(100));
        canceller.cancel();
        canceller
    });
    failing("cancelled", session.run(&Inputs { times: View::new(&[1 << 40], &[]), ..good.clone() }));
    stopper.join().unwrap().resume();
    println!("again: {:.1}", session.run(&good)?.z.data()[0]);
    println!(
        "halves: {:.7e} {:.7} {:04x} {:04x}",
        f32::from(Float16::from(1e-7)),
        f32::from(BFloat16::from(std::f32::consts::PI)),
        Float16::from(65520.0).0,
        BFloat16::from(-0.0).0
    );
    Ok(())
}
