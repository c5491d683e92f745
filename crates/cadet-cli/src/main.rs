//! The command line of cadet: files in, a model, scores and reports out.

mod args;
mod commands;
mod files;
mod output;
mod report;
mod settings;
mod sheet;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};

use args::{Args, Command, Items, Key, State};

fn main() -> ExitCode {
    hush_caught_panics();
    let parsed = Args::command()
        .try_get_matches()
        .and_then(|matches| Ok((Args::from_arg_matches(&matches)?, matches)));
    let (mut args, matches) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => return output::report_usage(&error),
    };
    match &args.command {
        Command::Serve(serve) => output::log_for_long(args.global.verbose, serve.log_format),
        _ => output::log_to_stderr(args.global.verbose),
    }
    let ready = files::check(&matches).and_then(|()| commands::name_columns(&mut args.command));
    let run = || match &args.command {
        Command::Demo(demo) => commands::demo::run(demo, &args.global),
        Command::Train(train) => commands::train::run(train, &args.global),
        Command::Model(models) => commands::model::run(models, &args.global),
        Command::Score(score) => commands::score::run(score, &args.global),
        Command::Eval(eval) => commands::eval::run(eval, &args.global),
        Command::Audience(audience) => commands::audience::run(audience, &args.global),
        Command::Rerank(rerank) => commands::rerank::run(rerank, &args.global),
        Command::Fresh(fresh) => commands::fresh::run(fresh, &args.global),
        Command::Simulate(simulate) => commands::simulate::run(simulate, &args.global),
        Command::Similar(similar) => commands::similar::run(similar, &args.global),
        Command::User(user) => commands::user::run(user, &args.global),
        Command::Explain(explain) => commands::explain::run(explain, &args.global),
        Command::Items(Items::Add(add)) => commands::items::add(add, &args.global),
        Command::Inspect(inspect) => commands::inspect::run(inspect, &args.global),
        Command::Serve(serve) => commands::serve::run(serve),
        Command::Key(Key::New(new)) => commands::key::new(new, &args.global),
        Command::State(State::Check(check)) => commands::state::check(check, &args.global),
        Command::State(State::Cut(cut)) => commands::state::cut(cut, &args.global),
    };
    let result = ready.and_then(|()| output::pool(args.global.threads)).and_then(|pool| pool.install(run));
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => output::report_error(&error, &files::asked(&matches).0),
    }
}

/// A file that makes a library panic is an error like any other, told once.
fn hush_caught_panics() {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !cadet_data::panics_are_caught() {
            print(panic);
        }
    }));
}
