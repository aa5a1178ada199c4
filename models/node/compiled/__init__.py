"""The compiled execution: state machines under Numba, one module a threading policy.

An agent's step function is called when the time it held for is over: it applies what the finished
step did, begins the next one, and returns the time at which that ends. The reference execution in
`..reference` is the same model written as processes; tests hold the two to identical results.
"""
