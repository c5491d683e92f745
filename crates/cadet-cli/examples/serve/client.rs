//! Clients that ask the same question again and again, each on a connection that stays open.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::Result;

/// What stands where a user is to be: it is another one in every row, of those between 1,000 and 5,999.
pub(crate) const USER: u32 = 9_999;
/// What stands where an event id is to be: it is another one in every row.
pub(crate) const PLACE: &str = "0000000000000000";

static EVENT: AtomicU64 = AtomicU64::new(1);

/// A request.
#[derive(Debug, Clone)]
pub(crate) struct Ask {
    bytes: Vec<u8>,
    places: Vec<usize>,
    users: Vec<usize>,
}

/// How often it is asked.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Pace {
    /// So many times on each connection.
    Times(usize),
    /// Again as soon as it was answered, for so long.
    Full(Duration),
    /// So many a second on all connections together, answered in time or not. What waits for its turn is late
    /// from when it was to be asked.
    Rate(f64, Duration),
}

/// What came of it.
#[derive(Debug, Default)]
pub(crate) struct Taken {
    /// Seconds of each answer, in order of length.
    times: Vec<f64>,
    seconds: f64,
    /// Bytes of a body.
    pub(crate) length: usize,
}

impl Taken {
    /// Answers a second.
    pub(crate) fn rate(&self) -> f64 {
        self.times.len() as f64 / self.seconds
    }

    /// Milliseconds that a share of the answers took at the most.
    pub(crate) fn late(&self, share: f64) -> f64 {
        self.times[((self.times.len() - 1) as f64 * share) as usize] * 1e3
    }
}

impl Ask {
    pub(crate) fn new(path: &str, body: &Value) -> Self {
        let body = body.to_string();
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        let places = body.match_indices(PLACE).map(|(at, _)| head.len() + at).collect();
        let user = format!("\"user_id\":{USER}");
        let digits = head.len() + user.len() - 4;
        let users = body.match_indices(&user).map(|(at, _)| digits + at).collect();
        Self { bytes: (head + &body).into_bytes(), places, users }
    }

    fn with_new_ids(&mut self) {
        for (i, at) in self.places.iter().enumerate() {
            let number = EVENT.fetch_add(1, Ordering::Relaxed);
            self.bytes[*at..][..PLACE.len()].copy_from_slice(format!("{number:016x}").as_bytes());
            if let Some(at) = self.users.get(i) {
                let user = 1_000 + number.wrapping_mul(7_919) % 5_000;
                self.bytes[*at..][..4].copy_from_slice(user.to_string().as_bytes());
            }
        }
    }
}

/// A connection that stays open.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: TcpStream,
    found: Vec<u8>,
}

impl Connection {
    pub(crate) fn open(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        Ok(Self { stream, found: vec![0; 1 << 16] })
    }

    /// Sends a request and reads its answer: the status and the body.
    pub(crate) fn answer(&mut self, request: &[u8]) -> Result<(u16, &[u8])> {
        self.stream.write_all(request)?;
        let (mut filled, mut whole) = (0, None);
        loop {
            if filled == self.found.len() {
                self.found.resize(2 * filled, 0);
            }
            let read = self.stream.read(&mut self.found[filled..])?;
            if read == 0 {
                return Err("the connection was closed".into());
            }
            filled += read;
            if whole.is_none() {
                whole = size(&self.found[..filled])?;
            }
            if let Some((status, head, body)) = whole
                && filled >= head + body
            {
                return Ok((status, &self.found[head..head + body]));
            }
        }
    }
}

/// The status of an answer, where its body begins and how long that is, once its head is there.
fn size(found: &[u8]) -> Result<Option<(u16, usize, usize)>> {
    let Some(head) = found.windows(4).position(|part| part == b"\r\n\r\n") else { return Ok(None) };
    let text = std::str::from_utf8(&found[..head])?;
    let status = text.split(' ').nth(1).ok_or("no status")?.parse()?;
    let length = text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
    });
    Ok(Some((status, head + 4, length.ok_or("no content-length")?)))
}

/// Asks on so many connections at once.
pub(crate) fn ask(address: SocketAddr, question: &Ask, connections: usize, pace: Pace) -> Result<Taken> {
    let begun = Instant::now();
    let work = |number: usize| -> std::result::Result<(Vec<f64>, usize), String> {
        let mut question = question.clone();
        let mut connection = Connection::open(address).map_err(|e| e.to_string())?;
        let (mut times, mut length) = (Vec::new(), 0);
        for turn in 0.. {
            let due = match pace {
                Pace::Times(most) if turn == most => break,
                Pace::Full(most) | Pace::Rate(_, most) if begun.elapsed() > most => break,
                Pace::Times(_) | Pace::Full(_) => Instant::now(),
                Pace::Rate(rate, _) => {
                    let due = begun + Duration::from_secs_f64((turn * connections + number) as f64 / rate);
                    std::thread::sleep(due.saturating_duration_since(Instant::now()));
                    due
                }
            };
            question.with_new_ids();
            let (status, body) = connection.answer(&question.bytes).map_err(|e| e.to_string())?;
            if status != 200 {
                return Err(format!("{status}: {}", String::from_utf8_lossy(body)));
            }
            length = body.len();
            times.push(due.elapsed().as_secs_f64());
        }
        Ok((times, length))
    };
    let mut all = Taken::default();
    std::thread::scope(|scope| -> Result<()> {
        let work = &work;
        let threads: Vec<_> = (0..connections).map(|number| scope.spawn(move || work(number))).collect();
        for thread in threads {
            let (times, length) = thread.join().map_err(|_| "a client panicked")??;
            all.times.extend(times);
            all.length = length;
        }
        Ok(())
    })?;
    all.seconds = begun.elapsed().as_secs_f64();
    all.times.sort_by(f64::total_cmp);
    Ok(all)
}
