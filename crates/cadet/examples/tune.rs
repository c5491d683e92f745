#![allow(missing_docs, clippy::print_stdout)]
use cadet::heads::Heads;
use cadet::init::{learned, random};
use cadet::ratio::RatioConfig;
use cadet::rng::{Purpose, Rng};
use cadet::sampler::{Base, Sampler};
use cadet::split::{Part, SplitRule};
use cadet::synth::WorldConfig;
use cadet::trainer::*;
use cadet::*;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let get = |k: &str, d: &str| args.iter().find_map(|a| a.strip_prefix(&format!("{k}=")).map(String::from)).unwrap_or(d.into());
    let num = |k: &str, d: f64| get(k, &d.to_string()).parse::<f64>().unwrap();
    let list = |k: &str, d: &str| get(k, d).split(',').map(|v| v.parse::<usize>().unwrap()).collect::<Vec<_>>();
    for seed in 1..=num("seeds", 2.0) as u64 {
        let world = WorldConfig { seed, users: num("users", 6000.0) as usize, items: num("items", 400.0) as usize, exposures: num("exposures", 150000.0) as usize, ..WorldConfig::default() }.make().unwrap();
        let rule = SplitRule::new(0.1, 0.1, seed).unwrap();
        let parts: Vec<Part> = (0..world.features.len() as i64).map(|i| rule.part(IdRef::Int(i))).collect();
        let train_e = world.exposures.filter(|_, u| parts[u.0 as usize] == Part::Train);
        let valid_e = world.exposures.filter(|_, u| parts[u.0 as usize] == Part::Valid);
        let mut x = world.features.clone();
        let n = x.len();
        let w = x.width();
        for f in 0..w {
            let m: f32 = (0..n).map(|i| x.values()[i * w + f]).sum::<f32>() / n as f32;
            let s = ((0..n).map(|i| (x.values()[i * w + f] - m).powi(2)).sum::<f32>() / n as f32).sqrt();
            for i in 0..n { let v = &mut x.values_mut()[i * w + f]; *v = (*v - m) / s; }
        }
        let tasks: Vec<TaskId> = (0..world.exposures.task_count() as u32).map(TaskId).collect();
        let sampler = Sampler::new(&train_e, tasks.clone(), Base::Exposures).unwrap();
        let vsampler = Sampler::new(&valid_e, tasks.clone(), Base::Exposures).unwrap();
        let validation = Validation::draw(&vsampler, 20000, seed);
        let hidden = list("hidden", "32,32,16");
        let d = num("dropout", 0.0) as f32;
        let net = RatioConfig { dropout: vec![d; hidden.len()], hidden };
        let config = TrainConfig { epochs: num("epochs", 40.0) as usize, batch: num("batch", 1024.0) as usize, learning_rate: num("lr", 1e-3) as f32, schedule: if get("sched", "cosine") == "cosine" { Schedule::Cosine } else { Schedule::Steps }, drops: vec![], update: if get("update", "joint") == "joint" { Update::Joint } else { Update::Alternate }, task_rate: num("trate", 1.0) as f32, patience: num("patience", 10.0) as usize, select: Select::Loss, seed };
        let e = num("e", 16.0) as usize;
        for init in get("init", "random,learned").split(',') {
            let t = std::time::Instant::now();
            let start = if init == "random" { random::random(tasks.len(), e, num("escale", 1.0) as f32, seed).unwrap() } else {
                let choice = if init == "spread" { learned::SeedChoice::Spread } else { learned::SeedChoice::Random };
                let seeds = learned::choose_seeds(choice, num("m0", 64.0) as usize, &train_e, &x, seed).unwrap();
                let s = Sampler::new(&train_e, seeds.clone(), Base::Exposures).unwrap();
                let v = Validation::draw(&Sampler::new(&valid_e, seeds.clone(), Base::Exposures).unwrap(), 5000, seed);
                let mut heads = Heads::init(&net, w, seeds.len(), seed).unwrap();
                let h = train(heads.model_mut(), &s, &x, Some(&v), &TrainConfig { epochs: num("hepochs", 40.0) as usize, task_rate: 1.0, ..config.clone() }, None, &mut Unwatched).unwrap();
                if args.iter().any(|a| a == "-v") { println!("  heads best {} of {} loss {:.4}", h.best, h.epochs.len(), h.epochs[h.best - 1].valid.unwrap().loss); }
                learned::learned(&heads, &x, &train_e, e, num("lscale", 1.0) as f32).unwrap().0
            };
            let mut ratio = net.init(w, &start, seed).unwrap();
            let h = train(ratio.model_mut(), &sampler, &x, Some(&validation), &config, None, &mut Unwatched).unwrap();
            let test: Vec<u32> = (0..n as u32).filter(|u| parts[*u as usize] == Part::Test).collect();
            let mut pairs = vec![];
            let mut rng = Rng::at(1, Purpose::Evaluation, [0, 0]);
            for t in &tasks {
                let us: Vec<u32> = test.iter().copied().filter(|_| rng.unit() < 1.0).collect();
                let mut out = vec![0.0; us.len()];
                use cadet::estimator::Estimator;
                ratio.model_mut().responses(&x, &vec![t.0; us.len()], &us, &mut out);
                pairs.extend(us.iter().zip(out).map(|(u, f)| (f64::from(f), world.log_ratio(*t, *u))));
            }
            let sd = metrics::Summary::of(pairs.iter().map(|p| p.1)).unwrap();
            let a = metrics::agreement(pairs.iter().copied());
            println!("seed {seed} {init:8} best {:3}/{:3} valid {:.4} auc {:.4} corr {:.4} rmse {:.4} (truth sd {:.2}) {:.2}s", h.best, h.epochs.len(), h.epochs[h.best - 1].valid.unwrap().loss, h.epochs[h.best - 1].valid.unwrap().auc, a.correlation, a.rmse, sd.sd, t.elapsed().as_secs_f64());
        }
    }
}
