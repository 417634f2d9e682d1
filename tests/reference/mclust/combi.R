# Components combined by entropy, of an EM fit from a partition by hc: Rscript combi.R iris.csv 1-4 VVV 6 > combi_iris.json
# The mixture, the entropy of 1, 2, ... clusters, which two of the clusters of each step are combined, and the
# number of clusters that clustCombiOptim chooses.
suppressMessages(library(mclust))
args <- commandArgs(TRUE)
columns <- eval(parse(text = sub("-", ":", args[2])))
X <- as.matrix(read.csv(args[1])[, columns])
G <- as.integer(args[4])
start <- unmap(as.vector(hclass(hc(X, modelName = "VVV"), G)))
fit <- me(X, args[3], start, control = emControl(tol = c(1e-12, 1e-12)))
fit$data <- X
class(fit) <- "Mclust"
combined <- clustCombi(fit)
z <- fit$z
entropies <- numeric(G)
steps <- character(0)
for (k in G:1) {
  M <- combined$combiM[[k]]
  if (k < G) steps <- c(steps, sprintf("[%s]", paste(which(M[which(rowSums(M) == 2), ] == 1), collapse = ", ")))
  z <- t(M %*% t(z))
  entropies[k] <- -sum(ifelse(z > 0, z * log(z), 0))
}
numbers <- function(x) paste(sprintf("%.15g", as.vector(x)), collapse = ", ")
parameters <- fit$parameters
cat(sprintf(paste0("{\"mclust\": \"%s\", \"data\": \"%s\", \"model\": \"%s\", \"n_components\": %d, \"n_clusters\": %d,\n",
  "\"entropies\": [%s],\n\"steps\": [%s],\n\"weights\": [%s],\n\"means\": [%s],\n\"covariances\": [%s]}\n"),
  packageVersion("mclust"), basename(args[1]), args[3], G, clustCombiOptim(combined)$numClusters.combi,
  numbers(entropies), paste(steps, collapse = ", "), numbers(parameters$pro), numbers(parameters$mean),
  numbers(parameters$variance$sigma)))
