"""Pipelines of texts and of plain numbers."""

# ruff: noqa: D103  names of pipelines say what they are

from __future__ import annotations

from typing import Any

from benchmarks import pipeline_frames as data
from benchmarks.pipeline_cases import case


@case(data.news)
def news_by_tfidf() -> Any:
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    return make_pipeline(TfidfVectorizer(), LogisticRegression())


@case(data.news)
def news_by_counts() -> Any:
    """Scikit-learn, Working With Text Data."""
    from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer
    from sklearn.naive_bayes import MultinomialNB
    from sklearn.pipeline import Pipeline

    return Pipeline(
        [("vect", CountVectorizer()), ("tfidf", TfidfTransformer()), ("clf", MultinomialNB())]
    )


@case(data.news)
def news_by_gradient_descent() -> Any:
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import SGDClassifier
    from sklearn.pipeline import make_pipeline

    terms = TfidfVectorizer(sublinear_tf=True, max_df=0.5, min_df=5, stop_words="english")
    return make_pipeline(terms, SGDClassifier(loss="log_loss", random_state=0))


@case(data.news)
def news_grid_search() -> Any:
    """Scikit-learn, Sample pipeline for text feature extraction and evaluation."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.model_selection import GridSearchCV
    from sklearn.naive_bayes import ComplementNB
    from sklearn.pipeline import Pipeline

    grid = {"vect__ngram_range": [(1, 1), (1, 2)], "clf__alpha": [0.01, 0.1]}
    return GridSearchCV(
        Pipeline([("vect", TfidfVectorizer()), ("clf", ComplementNB())]), grid, cv=3
    )


@case(data.news)
def news_by_hashes() -> Any:
    from sklearn.feature_extraction.text import HashingVectorizer
    from sklearn.linear_model import SGDClassifier
    from sklearn.pipeline import make_pipeline

    return make_pipeline(HashingVectorizer(n_features=2**12), SGDClassifier(random_state=0))


@case(data.news)
def news_by_hashes_and_weights() -> Any:
    """Scikit-learn, Clustering text documents using k-means."""
    from sklearn.cluster import KMeans
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import HashingVectorizer, TfidfTransformer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import Normalizer

    lsa = make_pipeline(
        HashingVectorizer(stop_words="english", n_features=5000, alternate_sign=False, norm=None),
        TfidfTransformer(),
        TruncatedSVD(20, random_state=0),
        Normalizer(copy=False),
    )
    return make_pipeline(lsa, KMeans(4, n_init=5, random_state=0))


@case(data.news)
def news_by_characters() -> Any:
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.pipeline import make_pipeline
    from sklearn.svm import LinearSVC

    terms = TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 4), strip_accents="unicode")
    return make_pipeline(terms, CalibratedClassifierCV(LinearSVC(), cv=3))


@case(data.news)
def news_by_the_best_terms() -> Any:
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.feature_selection import SelectKBest, chi2
    from sklearn.naive_bayes import BernoulliNB
    from sklearn.pipeline import make_pipeline

    return make_pipeline(CountVectorizer(binary=True), SelectKBest(chi2, k=40), BernoulliNB())


@case(data.news_frame)
def subjects_and_bodies() -> Any:
    """Scikit-learn, Column Transformer with Heterogeneous Data Sources."""
    from sklearn.compose import ColumnTransformer
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.pipeline import Pipeline
    from sklearn.svm import LinearSVC

    body = Pipeline([("tfidf", TfidfVectorizer()), ("best", TruncatedSVD(20, random_state=0))])
    columns = ColumnTransformer(
        [("subject", TfidfVectorizer(min_df=5), "subject"), ("body_bow", body, "body")],
        transformer_weights={"subject": 0.8, "body_bow": 0.5},
    )
    return Pipeline([("union", columns), ("svc", LinearSVC(dual=False))])


@case(data.reviews)
def reviews_of_texts_and_tables() -> Any:
    from sklearn.compose import make_column_transformer
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    columns = make_column_transformer(
        (TfidfVectorizer(ngram_range=(1, 2)), "text"),
        (OneHotEncoder(handle_unknown="ignore"), ["department"]),
        (make_pipeline(SimpleImputer(), StandardScaler()), ["age", "rating"]),
        ("passthrough", ["verified"]),
    )
    return make_pipeline(columns, LogisticRegression())


@case(data.news)
def words_and_characters_together() -> Any:
    from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
    from sklearn.linear_model import RidgeClassifier
    from sklearn.pipeline import FeatureUnion, make_pipeline

    union = FeatureUnion(
        [
            ("words", TfidfVectorizer(stop_words="english")),
            ("chars", CountVectorizer(analyzer="char", ngram_range=(1, 3), max_features=300)),
        ]
    )
    return make_pipeline(union, RidgeClassifier())


@case(data.news)
def topics_of_news() -> Any:
    """Scikit-learn, Topic extraction with NMF and Latent Dirichlet Allocation."""
    from sklearn.decomposition import NMF
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.pipeline import make_pipeline

    return make_pipeline(TfidfVectorizer(max_features=200), NMF(4, random_state=0, max_iter=400))


# -- numbers ---------------------------------------------------------------------------------------


@case(data.built_in("digits"))
def digits_by_components() -> Any:
    """Scikit-learn, Pipelining: chaining a PCA and a logistic regression."""
    from sklearn.decomposition import PCA
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import StandardScaler

    steps = [("scaler", StandardScaler()), ("pca", PCA(30)), ("logistic", LogisticRegression())]
    return Pipeline(steps)


@case(data.built_in("iris"))
def features_united() -> Any:
    """Scikit-learn, Concatenating multiple feature extraction methods."""
    from sklearn.decomposition import PCA
    from sklearn.feature_selection import SelectKBest
    from sklearn.pipeline import FeatureUnion, Pipeline
    from sklearn.svm import SVC

    union = FeatureUnion([("pca", PCA(2)), ("univ_select", SelectKBest(k=1))])
    return Pipeline([("features", union), ("svm", SVC(kernel="linear"))])


@case(data.built_in("breast_cancer", frame=True))
def votes_of_three() -> Any:
    """Scikit-learn, Plot class probabilities calculated by the VotingClassifier."""
    from sklearn.ensemble import RandomForestClassifier, VotingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.naive_bayes import GaussianNB
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    members = [
        ("lr", make_pipeline(StandardScaler(), LogisticRegression())),
        ("rf", RandomForestClassifier(50, random_state=1)),
        ("gnb", GaussianNB()),
    ]
    return VotingClassifier(members, voting="soft", weights=[1, 1, 5])


@case(data.built_in("wine", frame=True))
def stacked_wines() -> Any:
    from sklearn.ensemble import RandomForestClassifier, StackingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import LinearSVC

    members = [
        ("rf", RandomForestClassifier(20, random_state=42)),
        ("svr", make_pipeline(StandardScaler(), LinearSVC(random_state=42))),
    ]
    return StackingClassifier(members, final_estimator=LogisticRegression())


@case(data.built_in("wine"))
def calibrated_machines() -> Any:
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC

    return make_pipeline(StandardScaler(), CalibratedClassifierCV(SVC(), method="isotonic", cv=3))


@case(data.built_in("diabetes", frame=True, share=0.1))
def neighbours_for_missing_numbers() -> Any:
    """Scikit-learn, Imputing missing values before building an estimator."""
    from sklearn.ensemble import RandomForestRegressor
    from sklearn.impute import KNNImputer
    from sklearn.pipeline import make_pipeline

    return make_pipeline(KNNImputer(add_indicator=True), RandomForestRegressor(50, random_state=0))


@case(data.built_in("diabetes", frame=True, share=0.1))
def boosted_missing_numbers() -> Any:
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.model_selection import RandomizedSearchCV

    grid = {"max_leaf_nodes": [4, 8, 16], "learning_rate": [0.05, 0.1]}
    return RandomizedSearchCV(
        HistGradientBoostingRegressor(max_iter=60), grid, n_iter=3, cv=3, random_state=0
    )


@case(data.built_in("linnerud", frame=True))
def several_targets() -> Any:
    from sklearn.ensemble import GradientBoostingRegressor
    from sklearn.multioutput import MultiOutputRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(
        StandardScaler(), MultiOutputRegressor(GradientBoostingRegressor(random_state=0))
    )


@case(data.generated("multilabel_classification", n_samples=400))
def several_labels() -> Any:
    from sklearn.linear_model import LogisticRegression
    from sklearn.multioutput import ClassifierChain
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(
        StandardScaler(), ClassifierChain(LogisticRegression(), order="random", random_state=0)
    )


@case(data.generated("blobs", n_samples=500, centers=1))
def outliers() -> Any:
    """Scikit-learn, IsolationForest example."""
    from sklearn.ensemble import IsolationForest

    return IsolationForest(n_estimators=100, random_state=0)


@case(data.generated("moons", n_samples=400, noise=0.3))
def approximated_kernels() -> Any:
    """Scikit-learn, Explicit feature map approximation for RBF kernels."""
    from sklearn.kernel_approximation import Nystroem
    from sklearn.linear_model import SGDClassifier
    from sklearn.pipeline import make_pipeline

    return make_pipeline(Nystroem(gamma=0.2, n_components=50, random_state=1), SGDClassifier())


@case(data.built_in("diabetes"))
def chosen_polynomials() -> Any:
    from sklearn.feature_selection import SelectFromModel
    from sklearn.linear_model import LassoCV, LinearRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import PolynomialFeatures, StandardScaler

    return make_pipeline(
        StandardScaler(),
        PolynomialFeatures(2, include_bias=False),
        SelectFromModel(LassoCV(max_iter=5000)),
        LinearRegression(),
    )


@case(data.generated("circles", n_samples=400, noise=0.1, factor=0.4))
def kernel_components() -> Any:
    """Scikit-learn, Kernel PCA."""
    from sklearn.decomposition import KernelPCA
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    return make_pipeline(KernelPCA(2, kernel="rbf", gamma=10), LogisticRegression())


@case(data.built_in("breast_cancer"))
def a_threshold_of_decisions() -> Any:
    """Scikit-learn, Post-tuning the decision threshold for cost-sensitive learning."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import TunedThresholdClassifierCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    model = make_pipeline(StandardScaler(), LogisticRegression())
    return TunedThresholdClassifierCV(model, scoring="balanced_accuracy")
