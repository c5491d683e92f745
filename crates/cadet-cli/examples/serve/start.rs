//! How long until the service lives, and until it answers from a large model?

use std::io::Read;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use cadet::fit::fit;
use cadet::internals::with_log_sums;
use cadet::learn::trainer::Unwatched;
use cadet::rng::{Purpose, Rng};
use cadet::settings::Settings;
use cadet::{ExposuresBuilder, Ids, Instances, Log, Names};
use cadet_serve::registry::Registry;
use sha2::{Digest, Sha256};

use crate::client::Connection;
use crate::{Result, median, range};

const USERS: usize = 6_000_000;
const ITEMS: usize = 20_000;
const FEATURES: usize = 32;
const LONGEST: Duration = Duration::from_secs(300);

/// A model of about a gigabyte. Normalised in full it would take long, so it is given numbers that cost as much
/// to load.
fn large(folder: &Path) -> Result<String> {
    let registry = Registry::open(folder);
    if let Some(name) = registry.current()? {
        return Ok(name);
    }
    let mut rng = Rng::at(1, Purpose::World, [9, 5]);
    let mut builder = ExposuresBuilder::new();
    for _ in 0..4 * USERS / 3 {
        let item = (ITEMS as f64 * rng.unit().powi(2)) as u32;
        builder.push(item, (USERS as f64 * (0.5 * f64::from(item % 2) + 0.5 * rng.unit())) as u32);
    }
    let side = |user: usize| if user < USERS / 2 { 1.0 } else { -1.0 };
    let x = (0..USERS * FEATURES).map(|i| side(i / FEATURES) + rng.normal()).collect();
    let ids = |count: usize| Ids::from_names(Names::Int((0..count as i64).collect()));
    let log = Log {
        users: ids(USERS)?,
        items: ids(ITEMS)?,
        exposures: builder.build(ITEMS, USERS)?,
        features: Some(Instances::new(FEATURES, x)?),
        feature_columns: Vec::new(),
        sources: vec!["a generated log".into()],
        events: Vec::new(),
        latest: 0,
    };
    let settings =
        Settings { epochs: 1, seed_epochs: 1, future: false, normalise: false, ..Settings::default() };
    let model = with_log_sums(&fit(log, &settings, &mut Unwatched)?, vec![0.125; USERS]);
    let name = registry.publish(&model)?;
    registry.set_current(&name)?;
    Ok(name)
}

/// A service of its own; it ends with this.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Seconds from the start of the program until a path is answered with 200, in order.
fn started(folder: &Path, paths: &[&str]) -> Result<Vec<f64>> {
    let address: SocketAddr = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let program =
        std::env::current_exe()?.parent().and_then(Path::parent).unwrap_or(Path::new(".")).join("cadet");
    let begun = Instant::now();
    let mut command = Command::new(program);
    command.arg("serve").arg(folder).args(["--listen", &address.to_string()]);
    let _running = Running(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?);
    let mut times = Vec::new();
    for path in paths {
        let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n");
        let is_there =
            || -> Result<bool> { Ok(Connection::open(address)?.answer(request.as_bytes())?.0 == 200) };
        while !is_there().unwrap_or(false) {
            if begun.elapsed() > LONGEST {
                return Err(format!("{path} was not answered in {LONGEST:?}").into());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        times.push(begun.elapsed().as_secs_f64());
    }
    Ok(times)
}

/// Seconds that reading and hashing all files of a folder take, and their bytes.
fn read_and_hash(folder: &Path) -> Result<(f64, u64)> {
    let (begun, mut bytes, mut part) = (Instant::now(), 0, vec![0; 1 << 20]);
    for entry in std::fs::read_dir(folder)? {
        let (mut file, mut digest) = (std::fs::File::open(entry?.path())?, Sha256::new());
        loop {
            let read = file.read(&mut part)?;
            if read == 0 {
                break;
            }
            bytes += read as u64;
            digest.update(&part[..read]);
        }
        std::hint::black_box(digest.finalize());
    }
    Ok((begun.elapsed().as_secs_f64(), bytes))
}

pub(crate) fn measure(folder: &Path, rounds: usize) -> Result<()> {
    let data = folder.join("start");
    std::fs::create_dir_all(&data)?;
    let name = large(&data)?;
    let model = Registry::open(&data).path(&name);
    let (mut live, mut ready, mut ratios, mut bytes) = (Vec::new(), Vec::new(), Vec::new(), 0);
    // The first one finds nothing in memory.
    let _ = read_and_hash(&model)?;
    for _ in 0..rounds {
        let times = started(&data, &["/livez", "/readyz"])?;
        let (hashing, size) = read_and_hash(&model)?;
        bytes = size;
        live.push(times[0] * 1e3);
        ready.push(times[1]);
        ratios.push(times[1] / hashing);
    }
    let (least, most) = range(&ratios);
    println!(
        "\nA start with a model of {:.2} GB: live after {:.0} ms (goal ≤ 100), ready after {:.2} s, {:.2} times as long as \
         reading and hashing its files ({least:.2} to {most:.2}, {rounds} rounds, goal ≤ 1.3).",
        bytes as f64 / 1e9,
        median(live),
        median(ready),
        median(ratios),
    );
    Ok(())
}
