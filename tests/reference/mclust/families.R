# EM of mclust for all fourteen families from a hard partition: Rscript families.R iris.csv 1-4 3 > families_iris_k3.json
# Log-likelihoods at the parameters after 1 and 5 M-steps, and at a tight tolerance; inner iterations to 1e-13.
suppressMessages(library(mclust))
args <- commandArgs(TRUE)
columns <- eval(parse(text = sub("-", ":", args[2])))
X <- as.matrix(read.csv(args[1])[, columns])
G <- as.integer(args[3])
labels <- as.vector(hclass(hc(X, modelName = "VVV"), G))
ended <- function(model, itmax, tol) {
  control <- emControl(eps = 0, tol = c(tol, 1e-13), itmax = c(itmax, 100000))
  fit <- suppressWarnings(me(X, model, unmap(labels), control = control))
  if (is.na(fit$loglik)) return(NA)
  parameters <- fit$parameters
  sum(dens(X, model, parameters, logarithm = TRUE))
}
models <- mclust.options("emModelNames")
cells <- sapply(models, function(model) {
  values <- c(ended(model, 1, 1e-300), ended(model, 5, 1e-300), ended(model, 20000, 1e-14))
  sprintf("\"%s\": [%s], \"%s_parameters\": %d", model,
    paste(ifelse(is.na(values), "null", sprintf("%.12f", values)), collapse = ", "),
    model, as.integer(nMclustParams(model, ncol(X), G)))
})
cat(sprintf("{\"mclust\": \"%s\", \"data\": \"%s\", \"n_components\": %d,\n\"labels\": [%s],\n%s}\n",
  packageVersion("mclust"), basename(args[1]), G, paste(labels, collapse = ","), paste(cells, collapse = ",\n")))
