"""Logistic regression with an L2 penalty on the breast-cancer data that ship with scikit-learn, fitted by SciPy."""

import numpy as np
from scipy.optimize import minimize
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression

import tracegrad as tg

X, y = load_breast_cancer(return_X_y=True)
X = (X - X.mean(axis=0)) / X.std(axis=0)


@tg.value_and_grad
def objective(w, penalty):
    """Sum of the log losses of all patients; w[-1] is the intercept, which is not penalised."""
    z = X @ w[:-1] + w[-1]  # X and y are read at each call, not frozen into the program
    return np.sum(np.logaddexp(0, z) - y * z) + 0.5 * penalty * np.sum(w[:-1] ** 2)


def main():
    fit = minimize(objective, np.zeros(X.shape[1] + 1), args=(1.0,), jac=True, method="BFGS", options={"gtol": 1e-6})
    correct = np.mean((X @ fit.x[:-1] + fit.x[-1] > 0) == y)
    print(f"{fit.nit} iterations, loss {fit.fun:.6f}, {correct:.1%} of the patients classified correctly")

    sklearn = LogisticRegression(C=1.0, tol=1e-10, max_iter=10_000).fit(X, y)
    apart = max(np.max(np.abs(sklearn.coef_[0] - fit.x[:-1])), abs(sklearn.intercept_[0] - fit.x[-1]))
    print(f"largest difference from scikit-learn's coefficients: {apart:.1e}")
    assert apart < 1e-4

    path = [np.linalg.norm(minimize(objective, fit.x, args=(p,), jac=True).x[:-1]) for p in (0.1, 1.0, 10.0, 100.0)]
    print("norm of the weights for penalties 0.1, 1, 10, 100:", np.round(path, 3))
    assert path == sorted(path, reverse=True)


if __name__ == "__main__":
    main()
