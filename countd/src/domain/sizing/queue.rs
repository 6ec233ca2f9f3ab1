//! Waiting times of queues.
//!
//! A part (the CPU of a Redis server, the cores of a countd process) is a queue with Poisson arrivals, any distribution of the service time
//! and `c` servers: M/G/c. The mean waiting time is the approximation of Allen and Cunneen (A. O. Allen, *Probability, Statistics, and Queueing
//! Theory with Computer Science Applications*, 1990): that of M/M/c, times `(1 + cs²) / 2`, where `cs²` is the squared coefficient of
//! variation of the service time. With one server it is the formula of Pollaczek and Khinchine, which is exact. A job that has to wait waits an
//! exponentially distributed time, as in heavy traffic (J. F. C. Kingman, *The single server queue in heavy traffic*, 1961). For M/M/c that is exact,
//! too. With constant service times it overestimates the tail. Requests wait for two kinds of jobs: other requests, of which there are many and
//! short ones, and the background, of which there are few and long ones. Each kind has a waiting time of its own, so that neither blurs the other.
//!
//! A request passes several parts. The sum of its waiting times has a phase-type distribution (M. F. Neuts, *Matrix-Geometric Solutions in
//! Stochastic Models*, 1981), whose quantiles are computed without a further approximation.

/// Jobs of a class: how many arrive, and how long each takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Jobs {
    /// Arrivals per second.
    pub per_second: f64,
    /// Seconds of a core for each, if there are always some.
    pub seconds: f64,
    /// Seconds in addition if a job comes alone.
    pub alone: f64,
    /// Seconds that the client of each uses of the same cores.
    pub client: f64,
}

impl Jobs {
    /// Jobs that cost the same whether or not they come alone.
    pub fn new(per_second: f64, seconds: f64) -> Jobs {
        Jobs {
            per_second,
            seconds,
            alone: 0.0,
            client: 0.0,
        }
    }

    fn busy(self, seconds: f64) -> f64 {
        self.per_second * seconds
    }
}

/// A part with a queue.
#[derive(Clone, Debug)]
pub struct Station {
    cores: usize,
    /// The jobs of requests.
    requests: Vec<Jobs>,
    /// Background jobs whose rate grows with the load. They take longer than requests and are fewer.
    growing: Jobs,
    /// Background jobs at a constant rate.
    constant: Jobs,
}

impl Station {
    /// A part with this many cores, at least 1, and these classes of jobs.
    pub fn new(cores: usize, requests: impl IntoIterator<Item = Jobs>) -> Station {
        Station {
            cores: cores.max(1),
            requests: requests.into_iter().collect(),
            growing: Jobs::new(0.0, 0.0),
            constant: Jobs::new(0.0, 0.0),
        }
    }

    /// The same part with background jobs: those whose rate grows with the load, and those at a constant rate.
    pub fn with_background(self, growing: Jobs, constant: Jobs) -> Station {
        Station {
            growing,
            constant,
            ..self
        }
    }

    /// The cores that the jobs would keep busy if none came alone: their share of all is what cannot be used for more.
    pub fn needed_cores(&self) -> f64 {
        let jobs = self.requests.iter().chain([&self.growing, &self.constant]);
        jobs.map(|job| job.busy(job.seconds)).sum()
    }

    /// The cores that the jobs keep busy.
    pub fn busy_cores(&self) -> f64 {
        self.cores as f64 * (1.0 - self.idle_share()).max(self.utilization())
    }

    /// The share of its cores that is needed; 1 or more if the part is overloaded.
    pub fn utilization(&self) -> f64 {
        self.needed_cores() / self.cores as f64
    }

    /// The part of the [utilization](Self::utilization) that does not grow with the load.
    pub fn constant_share(&self) -> f64 {
        self.constant.busy(self.constant.seconds) / self.cores as f64
    }

    /// The share of the time in which a core is idle, which is the probability that a job comes alone.
    ///
    /// With it, jobs keep `needed + alone * idle` cores busy, and the idle share is what that leaves of 1.
    pub fn idle_share(&self) -> f64 {
        let alone: f64 = self.requests.iter().map(|job| job.busy(job.alone)).sum();
        let free = 1.0 - self.utilization();
        free.max(0.0) / (1.0 + alone / self.cores as f64)
    }

    /// How long a job of a request waits for other requests, and for the background; `None` if the part is overloaded, and waiting times
    /// grow without bound.
    ///
    /// The mean of both together is that of Allen and Cunneen. Each class has the share of it that its second moment has.
    pub fn wait(&self) -> Option<[Wait; 2]> {
        let idle = self.idle_share();
        let of_requests =
            |job: &Jobs| (job.per_second, job.seconds + job.alone * idle + job.client);
        let of_background = |job: &Jobs| (job.per_second, job.seconds);
        let [requests, background] = [
            Moments::of(self.requests.iter().map(of_requests)),
            Moments::of(
                [&self.growing, &self.constant]
                    .into_iter()
                    .map(of_background),
            ),
        ];
        let (busy, cores) = (requests.busy + background.busy, self.cores as f64);
        if busy >= cores {
            return None;
        }
        if busy <= 0.0 {
            return Some([Wait::NONE; 2]);
        }
        let waiting = erlang_c(self.cores, busy);
        let mean = |squares: f64| waiting * squares / (2.0 * busy * (cores - busy));
        let for_requests = erlang_c(self.cores, requests.busy);
        let for_background = (waiting - for_requests) / (1.0 - for_requests);
        Some([
            Wait::with_mean(for_requests, mean(requests.squares)),
            Wait::with_mean(for_background, mean(background.squares)),
        ])
    }
}

/// What jobs need each second.
struct Moments {
    /// Seconds.
    busy: f64,
    /// The sum of the squares of the seconds of each.
    squares: f64,
}

impl Moments {
    /// Of classes, each with its arrivals per second and the seconds of a job.
    fn of(classes: impl Iterator<Item = (f64, f64)>) -> Moments {
        let zero = Moments {
            busy: 0.0,
            squares: 0.0,
        };
        classes.fold(zero, |sum, (per_second, seconds)| Moments {
            busy: sum.busy + per_second * seconds,
            squares: sum.squares + per_second * seconds * seconds,
        })
    }
}

/// The probability that a job of M/M/c has to wait: Erlang's C formula. `busy` is less than `cores`.
fn erlang_c(cores: usize, busy: f64) -> f64 {
    // Erlang's B formula by its recursion, which neither overflows nor cancels.
    let blocked = (1..=cores).fold(1.0, |blocked, servers| {
        busy * blocked / (servers as f64 + busy * blocked)
    });
    let utilization = busy / cores as f64;
    blocked / (1.0 - utilization * (1.0 - blocked))
}

/// A waiting time: 0, or with a probability an exponentially distributed time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wait {
    /// The probability of having to wait.
    pub probability: f64,
    /// One divided by the mean of the time in seconds, if there is any.
    pub rate: f64,
}

impl Wait {
    /// No waiting.
    pub const NONE: Wait = Wait {
        probability: 0.0,
        rate: 1.0,
    };

    /// Waits with this probability and for this long on average, those included that do not wait.
    fn with_mean(probability: f64, mean: f64) -> Wait {
        match probability > 0.0 && mean > 0.0 {
            true => Wait {
                probability,
                rate: probability / mean,
            },
            false => Wait::NONE,
        }
    }

    /// The mean in seconds.
    pub fn mean(self) -> f64 {
        self.probability / self.rate
    }

    /// The longest of several waiting times, as a constant time and a waiting time after it.
    ///
    /// The probability that one of them is longer than a time is at most the sum of their probabilities (Boole's inequality).
    pub fn longest_of(self, times: f64) -> (f64, Wait) {
        let sum = self.probability * times.max(1.0);
        let constant = if sum > 1.0 { sum.ln() / self.rate } else { 0.0 };
        let probability = sum.min(1.0);
        (
            constant,
            Wait {
                probability,
                ..self
            },
        )
    }
}

/// The number of waiting times of a request: for requests and for the background, at countd and at Redis.
const PARTS: usize = 4;
type Matrix = [[f64; PARTS]; PARTS];

/// The time in seconds that the sum of independent waiting times exceeds with the probability `1 - quantile`.
///
/// `quantile` is between 0 and 1.
pub fn quantile(waits: [Wait; PARTS], quantile: f64) -> f64 {
    let tail = 1.0 - quantile;
    let generator = Generator::new(waits);
    if generator.exceeds(0.0) <= tail {
        return 0.0;
    }
    // No waiting time exceeds its bound with more than a quarter of the probability, so neither does the sum exceed theirs.
    let bounds =
        waits.map(|wait| (PARTS as f64 * wait.probability / tail).max(1.0).ln() / wait.rate);
    let (mut low, mut high) = (0.0, bounds.iter().sum::<f64>());
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        match generator.exceeds(middle) > tail {
            true => low = middle,
            false => high = middle,
        }
    }
    high
}

/// A phase-type distribution with a phase for each part at which a request waits.
struct Generator {
    /// The probability that the first phase is this one.
    start: [f64; PARTS],
    /// The rates between phases.
    rates: Matrix,
}

impl Generator {
    fn new(waits: [Wait; PARTS]) -> Generator {
        // The probability that the phase after `from` phases is `to`: the request does not wait in between.
        let next = |from: usize, to: usize| {
            let skipped: f64 = waits[from..to]
                .iter()
                .map(|wait| 1.0 - wait.probability)
                .product();
            skipped * waits[to].probability
        };
        let mut rates = [[0.0; PARTS]; PARTS];
        for (phase, row) in rates.iter_mut().enumerate() {
            let rate = waits[phase].rate;
            row[phase] = -rate;
            for (to, value) in row.iter_mut().enumerate().skip(phase + 1) {
                *value = rate * next(phase + 1, to);
            }
        }
        Generator {
            start: std::array::from_fn(|phase| next(0, phase)),
            rates,
        }
    }

    /// The probability that the sum exceeds a time.
    fn exceeds(&self, seconds: f64) -> f64 {
        let state = exponential(&self.rates, seconds);
        let rows = self.start.iter().zip(&state);
        rows.map(|(start, row)| start * row.iter().sum::<f64>())
            .sum()
    }
}

/// The exponential of a matrix times a number, by scaling and squaring.
fn exponential(matrix: &Matrix, factor: f64) -> Matrix {
    let norm = matrix
        .iter()
        .flatten()
        .fold(0.0, |max: f64, x| max.max(x.abs()))
        * factor;
    let squarings = (norm * 4.0).max(1.0).log2().ceil();
    let scale = factor / squarings.exp2();
    let (mut sum, mut term) = (identity(), identity());
    for order in 1..=16 {
        term = product(&term, matrix, scale / f64::from(order));
        for (row, added) in sum.iter_mut().zip(&term) {
            row.iter_mut()
                .zip(added)
                .for_each(|(value, add)| *value += add);
        }
    }
    for _ in 0..squarings as u32 {
        sum = product(&sum, &sum, 1.0);
    }
    sum
}

fn identity() -> Matrix {
    std::array::from_fn(|row| std::array::from_fn(|column| f64::from(u8::from(row == column))))
}

fn product(a: &Matrix, b: &Matrix, factor: f64) -> Matrix {
    std::array::from_fn(|row| {
        std::array::from_fn(|column| {
            let terms = (0..PARTS).map(|i| a[row][i] * b[i][column]);
            terms.sum::<f64>() * factor
        })
    })
}

#[cfg(test)]
mod tests;
