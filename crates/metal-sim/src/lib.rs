//! Runs Metal compute kernel bodies on the CPU, lane by lane.
