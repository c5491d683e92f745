//! What do those notice who ask while the model changes a thousand times?

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::client::Connection;
use crate::{Result, pairs};

const CONNECTIONS: usize = 64;
/// Pauses between questions of a connection, so that what is measured is not the queue of its own making.
const PAUSE: Duration = Duration::from_millis(40);
const QUIET: Duration = Duration::from_secs(5);

fn request(method: &str, path: &str, body: &str) -> Vec<u8> {
    format!(
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// Makes another model answer, and waits until it does.
fn promote(connection: &mut Connection, name: &str) -> Result<()> {
    let (status, body) = connection.answer(&request("POST", &format!("/v1/models/{name}/promote"), "{}"))?;
    let task: Value = serde_json::from_slice(body)?;
    if status != 202 {
        return Err(format!("promote: {status}: {task}").into());
    }
    let look = request("GET", &format!("/v1/tasks/{}", task["task_id"]), "");
    loop {
        let task: Value = serde_json::from_slice(connection.answer(&look)?.1)?;
        match task["status"].as_str() {
            Some("succeeded") => return Ok(()),
            Some("failed") | None => return Err(format!("promote: {task}").into()),
            _ => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

fn resident() -> Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with("RssAnon:")).ok_or("no RssAnon")?;
    Ok(line.split_whitespace().nth(1).ok_or("no figure")?.parse::<f64>()? / 1024.0)
}

fn late(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[(times.len() - 1) * 99 / 100] * 1e3
}

pub(crate) fn measure(address: SocketAddr, names: &[String; 2], promotes: usize) -> Result<String> {
    let question = request("POST", "/v1/score", &pairs(10).to_string());
    let mut control = Connection::open(address)?;
    let mut expected = Vec::new();
    for name in names.iter().rev() {
        promote(&mut control, name)?;
        expected.push((name.clone(), control.answer(&question)?.1.to_vec()));
    }
    if expected[0].1 == expected[1].1 {
        return Err("both models answer alike, so nothing would be seen".into());
    }
    let (changing, ended) = (AtomicBool::new(false), AtomicBool::new(false));
    let work = |number: usize| -> std::result::Result<[Vec<f64>; 2], String> {
        let mut connection = Connection::open(address).map_err(|e| e.to_string())?;
        let mut times = [Vec::new(), Vec::new()];
        std::thread::sleep(PAUSE * number as u32 / CONNECTIONS as u32);
        while !ended.load(Ordering::Relaxed) {
            let is_changing = changing.load(Ordering::Relaxed);
            let begun = Instant::now();
            let (status, body) = connection.answer(&question).map_err(|e| e.to_string())?;
            times[usize::from(is_changing)].push(begun.elapsed().as_secs_f64());
            if status != 200 || !expected.iter().any(|(_, known)| known == body) {
                return Err(format!("{status}: {}", String::from_utf8_lossy(body)));
            }
            std::thread::sleep(PAUSE);
        }
        Ok(times)
    };
    let mut swaps = Vec::new();
    let mut memory = Vec::new();
    let mut all = [Vec::new(), Vec::new()];
    std::thread::scope(|scope| -> Result<()> {
        let work = &work;
        let threads: Vec<_> = (0..CONNECTIONS).map(|number| scope.spawn(move || work(number))).collect();
        std::thread::sleep(QUIET);
        changing.store(true, Ordering::Relaxed);
        for turn in 0..promotes {
            let begun = Instant::now();
            // Whoever asks is let go whatever happens here.
            if let Err(error) = promote(&mut control, &names[1 - turn % 2]) {
                ended.store(true, Ordering::Relaxed);
                return Err(error);
            }
            swaps.push(begun.elapsed().as_secs_f64());
            if turn + 1 == 10 || turn + 1 == promotes {
                memory.push(resident()?);
            }
        }
        ended.store(true, Ordering::Relaxed);
        for thread in threads {
            let found = thread.join().map_err(|_| "a client panicked")??;
            all.iter_mut().zip(found).for_each(|(all, found)| all.extend(found));
        }
        Ok(())
    })?;
    let tenth = promotes.min(100);
    let mean = |times: &[f64]| times.iter().sum::<f64>() / times.len() as f64 * 1e3;
    let (first, last) = (mean(&swaps[..tenth]), mean(&swaps[promotes - tenth..]));
    let answers = all[1].len();
    let [quiet, busy] = all.map(|mut times| late(&mut times));
    Ok(format!(
        "{promotes} promotes under {CONNECTIONS} connections: {answers} answers meanwhile, all of them 200 and from one of the two models.\n\
         p99 {busy:.2} ms, quiet {quiet:.2} ms: {:.2} times (goal ≤ 1.5). A promote took {first:.1} ms at first, {last:.1} ms at last. \n\
         Memory after 10 {:.0} MB, after {promotes} {:.0} MB: {:.2} times (goal ≤ 1.05).",
        busy / quiet,
        memory[0],
        memory[1],
        memory[1] / memory[0],
    ))
}
