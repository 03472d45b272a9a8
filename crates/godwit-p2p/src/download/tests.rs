mod chains;
mod conduct;
mod history;
mod lost;
mod newcomers;
mod requests;
mod simulation;
mod tree;

const MB: f64 = 1e6;
