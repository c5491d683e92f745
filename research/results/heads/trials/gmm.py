import os; os.environ['OMP_NUM_THREADS']='1'; os.environ['OPENBLAS_NUM_THREADS']='1'
import numpy as np, sys, time, warnings; warnings.filterwarnings('ignore')
from sklearn.mixture import GaussianMixture
from worlds import *
def em_pi(S,t,n_items,pop,alpha,it=100,n=None):
    """S: (N,K) density ratio s_j(x); per-item weights, Dirichlet prior alpha*pop"""
    K=S.shape[1]; pi=np.tile(pop,(n_items,1)); nt=np.bincount(t,minlength=n_items)[:,None]
    o=np.argsort(t,kind='stable'); S=S[o]; ts=t[o]; present=np.unique(ts); starts=np.searchsorted(ts,present)
    for _ in range(it):
        R=pi[ts]*S; R/=R.sum(1,keepdims=True)+1e-300
        C=np.zeros((n_items,K)); C[present]=np.add.reduceat(R,starts,axis=0)
        pi=(C+alpha*pop)/(nt+alpha+1e-9)
    return pi
def gmm_fit(w,K,cov,seed=0,maxn=30000):
    rng=np.random.default_rng(seed); x=w.X[w.u]; x=x[rng.permutation(len(x))[:maxn]]
    return GaussianMixture(K,covariance_type=cov,reg_covar=1e-3,n_init=2,random_state=seed,max_iter=60).fit(x)
def resp(g,X):
    return g.predict_proba(X)/g.weights_
if __name__=='__main__':
    kw=eval('dict('+sys.argv[1]+')') if len(sys.argv)>1 else {}
    for s in (1,2,3):
        for cap in (None,100,20):
            w=world_a(s,cap,**kw)
            out=[]
            for K,cov in ((9,'full'),(9,'diag')):
                t0=time.process_time(); g=gmm_fit(w,K,cov); S=resp(g,w.X)[w.u]; St=resp(g,w.Xt)
                for al in (0.01,5,20):
                    pi=em_pi(S,w.t,w.n_items,g.weights_,al); f=np.log(St@pi.T+1e-9)
                    out.append(f'{cov}/{al} {cor_items(f,w.r).mean():.3f} {np.sqrt(((f-w.r)**2).mean()):.3f}')
            print(s,cap,len(w.u),f'sd {w.r.std():.2f} auc {auc_truth(w):.3f}',' | '.join(out),f'{time.process_time()-t0:.1f}s',flush=True)
