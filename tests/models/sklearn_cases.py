"""Fitted estimators of scikit-learn that the tests load, by name, with the data they are given."""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn import (
    calibration,
    cluster,
    compose,
    decomposition,
    discriminant_analysis,
    ensemble,
    feature_selection,
    gaussian_process,
    impute,
    isotonic,
    kernel_ridge,
    linear_model,
    mixture,
    model_selection,
    multiclass,
    multioutput,
    naive_bayes,
    neighbors,
    neural_network,
    pipeline,
    preprocessing,
    random_projection,
    svm,
    tree,
)
from sklearn.base import clone
from sklearn.gaussian_process import kernels

RNG = np.random.default_rng(0)
X = RNG.normal(size=(200, 5))
X[:, 4] = RNG.integers(0, 6, 200)
GAPS = np.where(RNG.random(X.shape) < 0.1, np.nan, X)
COUNTS = RNG.integers(0, 5, size=(200, 5)).astype(np.float64)
LINE = X[:, 0] * X[:, 1] + 0.3 * X[:, 4]
POSITIVE = np.exp(0.3 * LINE)
TWO = (LINE > 0.5).astype(np.int64)
THREE = np.digitize(LINE, [0.2, 1.2])
NAMES = np.array(["red", "green", "blue"])[THREE]
TWO_LINES = np.stack([LINE, X[:, 2] - X[:, 3]], axis=1)
TEXTS = np.array(["ash", "beech", "cedar"], dtype=object)[RNG.integers(0, 3, size=(200, 2))]


@dataclass(frozen=True)
class Case:
    """An estimator, what it is fitted to, and what it is asked about."""

    make: Callable[[], Any]
    x: Any = None
    y: Any = None
    asked: Any = None

    def fitted(self) -> Any:
        return self.make().fit(self.x, self.y)


CASES: dict[str, Case] = {}


def add(x: Any, y: Any, *models: Any) -> None:
    for model in models:
        name = f"{model}".replace("\n", " ").split("(")[0]
        told = [(k, v) for k, v in model.get_params(deep=False).items() if _told(model, k, v)]
        options = ",".join(f"{k}={v}" for k, v in told)
        key = f"{name}({options[:60]})"
        while key in CASES:
            key += "'"
        CASES[key] = Case(lambda model=model: model, x, y)


def _told(model: Any, name: str, value: Any) -> bool:
    default = inspect.signature(type(model)).parameters[name].default
    return isinstance(value, (int, float, str)) and value != default and name != "random_state"


R = {"random_state": 0}
LINEAR = (
    "LinearRegression", "Ridge", "RidgeCV", "Lasso", "LassoCV", "LassoLars", "LassoLarsCV",
    "LassoLarsIC", "ElasticNet", "ElasticNetCV", "Lars", "LarsCV", "BayesianRidge",
    "ARDRegression", "HuberRegressor", "TheilSenRegressor", "SGDRegressor", "QuantileRegressor",
    "OrthogonalMatchingPursuit", "OrthogonalMatchingPursuitCV",
)  # fmt: skip
TREE_CLASSIFIERS = (
    tree.DecisionTreeClassifier(max_depth=5, **R),
    tree.ExtraTreeClassifier(**R),
    ensemble.RandomForestClassifier(10, **R),
    ensemble.ExtraTreesClassifier(10, max_depth=4, **R),
    ensemble.GradientBoostingClassifier(n_estimators=6, **R),
    ensemble.HistGradientBoostingClassifier(max_iter=6, **R),
)
TREE_REGRESSORS = (
    tree.DecisionTreeRegressor(max_depth=5, **R),
    tree.ExtraTreeRegressor(**R),
    ensemble.RandomForestRegressor(10, **R),
    ensemble.ExtraTreesRegressor(10, max_depth=4, **R),
    ensemble.GradientBoostingRegressor(n_estimators=6, **R),
    ensemble.GradientBoostingRegressor(n_estimators=6, loss="huber", init="zero", **R),
    ensemble.HistGradientBoostingRegressor(max_iter=6, **R),
    ensemble.HistGradientBoostingRegressor(max_iter=6, categorical_features=[4], **R),
)
for y in (TWO, THREE, NAMES):
    add(X, y, *map(clone, TREE_CLASSIFIERS))
add(X, TWO, ensemble.GradientBoostingClassifier(n_estimators=6, loss="exponential", **R))
add(X, THREE, ensemble.HistGradientBoostingClassifier(max_iter=5, categorical_features=[4], **R))
add(
    X,
    LINE,
    *TREE_REGRESSORS,
    ensemble.IsolationForest(n_estimators=10, **R),
    ensemble.IsolationForest(n_estimators=5, max_features=3, **R),
)
add(X, POSITIVE, ensemble.HistGradientBoostingRegressor(max_iter=6, loss="poisson", **R))
add(
    X,
    TWO_LINES,
    tree.DecisionTreeRegressor(max_depth=5, **R),
    ensemble.RandomForestRegressor(5, **R),
)
add(
    GAPS,
    TWO,
    tree.DecisionTreeClassifier(max_depth=6, **R),
    ensemble.RandomForestClassifier(8, **R),
    ensemble.HistGradientBoostingClassifier(max_iter=6, **R),
    ensemble.HistGradientBoostingClassifier(max_iter=6, categorical_features=[4], **R),
)
add(
    X,
    LINE,
    *(getattr(linear_model, name)() for name in LINEAR),
    linear_model.RANSACRegressor(**R),
    svm.LinearSVR(**R),
    svm.SVR(),
    svm.SVR(kernel="poly"),
    svm.SVR(kernel="linear"),
    svm.NuSVR(kernel="sigmoid"),
    svm.OneClassSVM(),
    neighbors.KNeighborsRegressor(3),
    neighbors.KNeighborsRegressor(3, weights="distance", p=1),
    neighbors.KNeighborsRegressor(4, weights="distance", p=3),
    neural_network.MLPRegressor(hidden_layer_sizes=(8, 4), max_iter=30, **R),
    neural_network.MLPRegressor(hidden_layer_sizes=(8,), activation="tanh", max_iter=30, **R),
    kernel_ridge.KernelRidge(kernel="rbf"),
    kernel_ridge.KernelRidge(kernel="laplacian"),
    kernel_ridge.KernelRidge(kernel="poly"),
    gaussian_process.GaussianProcessRegressor(alpha=0.1, **R),
    gaussian_process.GaussianProcessRegressor(
        kernels.ConstantKernel(2.0) * kernels.RBF([1.0] * 5) + kernels.WhiteKernel(0.2),
        normalize_y=True,
        optimizer=None,
    ),
    *(
        gaussian_process.GaussianProcessRegressor(kernel, alpha=0.5, optimizer=None)
        for kernel in (
            kernels.Matern(nu=0.5),
            kernels.Matern(nu=1.5),
            kernels.Matern(nu=2.5),
            kernels.RationalQuadratic(),
            kernels.DotProduct(),
            kernels.RBF() ** 2,
        )
    ),
    gaussian_process.GaussianProcessRegressor(kernels.ExpSineSquared(), alpha=90, optimizer=None),
    ensemble.VotingRegressor([("a", linear_model.Ridge()), ("b", tree.DecisionTreeRegressor(**R))]),
    ensemble.VotingRegressor(
        [("a", linear_model.Ridge()), ("b", tree.DecisionTreeRegressor(**R))], weights=[1, 3]
    ),
    ensemble.StackingRegressor(
        [("a", linear_model.Ridge()), ("b", tree.DecisionTreeRegressor(max_depth=3, **R))],
        passthrough=True,
    ),
    ensemble.BaggingRegressor(n_estimators=4, max_features=3, **R),
    ensemble.AdaBoostRegressor(n_estimators=5, **R),
    compose.TransformedTargetRegressor(
        linear_model.Ridge(), transformer=preprocessing.StandardScaler()
    ),
    model_selection.GridSearchCV(linear_model.Ridge(), {"alpha": [1, 2]}),
)
add(
    X,
    POSITIVE,
    linear_model.PoissonRegressor(),
    linear_model.GammaRegressor(),
    linear_model.TweedieRegressor(power=1.5),
    linear_model.TweedieRegressor(power=0),
    compose.TransformedTargetRegressor(linear_model.Ridge(), func=np.log, inverse_func=np.exp),
)
add(
    X,
    TWO_LINES,
    linear_model.LinearRegression(),
    linear_model.MultiTaskLasso(),
    linear_model.MultiTaskElasticNet(),
    neural_network.MLPRegressor(hidden_layer_sizes=(8,), max_iter=30, **R),
    neighbors.KNeighborsRegressor(3, weights="distance"),
    multioutput.MultiOutputRegressor(linear_model.Ridge()),
    multioutput.RegressorChain(linear_model.Ridge(), order=[1, 0]),
    gaussian_process.GaussianProcessRegressor(alpha=0.1, normalize_y=True, **R),
    kernel_ridge.KernelRidge(),
)
for y in (TWO, NAMES):
    add(
        X,
        y,
        linear_model.LogisticRegression(),
        linear_model.LogisticRegressionCV(cv=2, max_iter=300),
        linear_model.SGDClassifier(loss="log_loss", **R),
        linear_model.SGDClassifier(loss="modified_huber", **R),
        linear_model.SGDClassifier(**R),
        linear_model.Perceptron(),
        linear_model.RidgeClassifier(),
        linear_model.RidgeClassifierCV(),
        svm.LinearSVC(),
        svm.SVC(),
        svm.SVC(kernel="poly", decision_function_shape="ovo"),
        svm.SVC(kernel="sigmoid"),
        svm.SVC(break_ties=True),
        svm.NuSVC(nu=0.2),
        svm.SVC(probability=True, **R),
        svm.NuSVC(nu=0.2, kernel="linear", probability=True, **R),
        ensemble.VotingClassifier(
            [("a", svm.SVC(probability=True, **R)), ("b", tree.DecisionTreeClassifier(**R))],
            voting="soft",
        ),
        neighbors.KNeighborsClassifier(4),
        neighbors.KNeighborsClassifier(5, weights="distance"),
        neighbors.NearestCentroid(),
        naive_bayes.GaussianNB(),
        naive_bayes.BernoulliNB(),
        discriminant_analysis.LinearDiscriminantAnalysis(),
        discriminant_analysis.LinearDiscriminantAnalysis(solver="eigen"),
        discriminant_analysis.QuadraticDiscriminantAnalysis(),
        neural_network.MLPClassifier((8,), max_iter=30, **R),
        ensemble.AdaBoostClassifier(n_estimators=5, **R),
        ensemble.AdaBoostClassifier(svm.SVC(kernel="linear"), n_estimators=3, **R),
        ensemble.BaggingClassifier(n_estimators=4, max_features=3, **R),
        ensemble.BaggingClassifier(svm.LinearSVC(), n_estimators=3, **R),
        *(
            ensemble.VotingClassifier(
                [("a", linear_model.LogisticRegression()), ("b", tree.DecisionTreeClassifier(**R))],
                voting=voting,
                weights=[2, 1],
            )
            for voting in ("hard", "soft")
        ),
        ensemble.StackingClassifier(
            [("a", linear_model.LogisticRegression()), ("b", svm.LinearSVC())], passthrough=True
        ),
        multiclass.OneVsRestClassifier(linear_model.LogisticRegression()),
        multiclass.OneVsRestClassifier(svm.LinearSVC()),
        multiclass.OneVsOneClassifier(linear_model.LogisticRegression()),
        multiclass.OneVsOneClassifier(tree.DecisionTreeClassifier(max_depth=2)),
        calibration.CalibratedClassifierCV(svm.LinearSVC(), cv=2),
        calibration.CalibratedClassifierCV(naive_bayes.GaussianNB(), method="isotonic", cv=2),
        model_selection.RandomizedSearchCV(
            linear_model.LogisticRegression(), {"C": [1, 2]}, n_iter=2, **R
        ),
        pipeline.make_pipeline(
            preprocessing.StandardScaler(), decomposition.PCA(3), linear_model.LogisticRegression()
        ),
        pipeline.make_pipeline(
            preprocessing.MinMaxScaler(), ensemble.RandomForestClassifier(5, **R)
        ),
    )
add(X, THREE * 1.0, linear_model.LogisticRegression())
add(
    X, TWO.astype(bool), linear_model.LogisticRegression(), tree.DecisionTreeClassifier(max_depth=3)
)
add(
    COUNTS,
    THREE,
    naive_bayes.MultinomialNB(),
    naive_bayes.ComplementNB(),
    naive_bayes.CategoricalNB(),
    naive_bayes.BernoulliNB(binarize=None),
)
add(
    X,
    np.stack([TWO, THREE], 1),
    multioutput.MultiOutputClassifier(linear_model.LogisticRegression()),
)
add(
    X,
    None,
    mixture.GaussianMixture(3, **R),
    mixture.GaussianMixture(3, covariance_type="tied", **R),
    mixture.GaussianMixture(3, covariance_type="diag", **R),
    mixture.GaussianMixture(3, covariance_type="spherical", **R),
    cluster.KMeans(4, n_init=2, **R),
    cluster.MiniBatchKMeans(4, n_init=2, **R),
    cluster.BisectingKMeans(4, **R),
)
add(
    X,
    THREE,
    preprocessing.StandardScaler(),
    preprocessing.StandardScaler(with_mean=False),
    preprocessing.MinMaxScaler((-1, 2), clip=True),
    preprocessing.MaxAbsScaler(),
    preprocessing.RobustScaler(),
    preprocessing.Normalizer(),
    preprocessing.Normalizer("l1"),
    preprocessing.Normalizer("max"),
    preprocessing.Binarizer(threshold=0.3),
    preprocessing.PolynomialFeatures(3),
    preprocessing.PolynomialFeatures(2, interaction_only=True, include_bias=False),
    preprocessing.KBinsDiscretizer(4, encode="ordinal", quantile_method="averaged_inverted_cdf"),
    preprocessing.KBinsDiscretizer(4, encode="onehot-dense", strategy="uniform"),
    preprocessing.PowerTransformer(),
    preprocessing.PowerTransformer(standardize=False),
    preprocessing.QuantileTransformer(n_quantiles=20),
    decomposition.PCA(3),
    decomposition.PCA(3, whiten=True),
    decomposition.IncrementalPCA(3),
    decomposition.TruncatedSVD(3),
    decomposition.FactorAnalysis(2),
    decomposition.FastICA(3, **R),
    random_projection.GaussianRandomProjection(3, **R),
    random_projection.SparseRandomProjection(3, **R),
    feature_selection.SelectKBest(k=2),
    feature_selection.VarianceThreshold(0.9),
    feature_selection.RFE(linear_model.LogisticRegression(), n_features_to_select=2),
    feature_selection.SelectFromModel(linear_model.LogisticRegression()),
    pipeline.make_pipeline(
        preprocessing.FunctionTransformer(np.tanh), preprocessing.StandardScaler()
    ),
    pipeline.make_union(preprocessing.StandardScaler(), decomposition.PCA(2)),
    compose.make_column_transformer(
        (preprocessing.StandardScaler(), [0, 3]), ("drop", [2]), remainder="passthrough"
    ),
    pipeline.make_pipeline(
        compose.make_column_transformer(
            (preprocessing.OneHotEncoder(sparse_output=False, handle_unknown="ignore"), [4]),
            remainder="passthrough",
        ),
        preprocessing.MinMaxScaler(),
    ),
)
add(POSITIVE[:, None] + np.abs(X), None, preprocessing.PowerTransformer(method="box-cox"))
add(
    GAPS,
    TWO,
    impute.SimpleImputer(),
    impute.SimpleImputer(strategy="median", add_indicator=True),
    impute.SimpleImputer(strategy="constant", fill_value=7.0),
    impute.MissingIndicator(),
    preprocessing.StandardScaler(),
    preprocessing.QuantileTransformer(n_quantiles=20),
    pipeline.make_pipeline(impute.SimpleImputer(), linear_model.LogisticRegression()),
)
add(
    COUNTS,
    TWO,
    preprocessing.OneHotEncoder(sparse_output=False),
    preprocessing.OneHotEncoder(sparse_output=False, drop="first", handle_unknown="ignore"),
    preprocessing.OneHotEncoder(
        sparse_output=False, max_categories=3, handle_unknown="infrequent_if_exist"
    ),
    preprocessing.OrdinalEncoder(),
    preprocessing.OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1),
)
add(
    TEXTS,
    TWO,
    preprocessing.OneHotEncoder(sparse_output=False),
    preprocessing.OrdinalEncoder(),
    pipeline.make_pipeline(
        preprocessing.OneHotEncoder(sparse_output=False), linear_model.LogisticRegression()
    ),
)
add(X[:, :1], LINE, isotonic.IsotonicRegression(out_of_bounds="clip"))


def _flat(models: Any) -> list[Any]:
    return models.ravel().tolist() if isinstance(models, np.ndarray) else list(models)


def thresholds(model: Any) -> Iterator[tuple[int, float]]:
    """Features and thresholds of the trees of a fitted estimator."""
    for one in _flat(model.estimators_) if hasattr(model, "estimators_") else (model,):
        if hasattr(one, "tree_"):
            yield from zip(one.tree_.feature.tolist(), one.tree_.threshold.tolist())
    for stage in getattr(model, "_predictors", ()):
        for predictor in stage:
            for node in predictor.nodes:
                if not node["is_leaf"] and not node["is_categorical"]:
                    yield int(node["feature_idx"]), float(node["num_threshold"])
