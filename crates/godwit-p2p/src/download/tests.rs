mod chains;
mod conduct;
mod history;
mod lost;
mod requests;
mod simulation;
mod tree;

const MB: f64 = 1e6;
