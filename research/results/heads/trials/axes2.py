import numpy as np
def pair_scatter(Z,u,t,n_items,cap=200):
    """Σ_t w_t · mean over pairs i≠j of item t of z_i z_jᵀ, w ∝ min(n-1,cap)"""
    n=np.bincount(t,minlength=n_items).astype(float); ok=n>1; w=np.where(ok,np.minimum(n-1,cap),0); w/=max(w.sum(),1e-12)
    S=np.zeros((n_items,Z.shape[1])); np.add.at(S,t,Z[u]); c=np.where(ok,w/np.maximum(n*(n-1),1),0)
    zz=Z[u]; return (S*c[:,None]).T@S-(zz*c[t][:,None]).T@zz
class Axes2:
    """as Axes, but the axes' signal variances are cross-fitted by folds of users, by place"""
    def __init__(s,phi,u,t,n_items,ridge=1e-3,width=16,F=5,seed=0,zmin=2.,cap=200,shrinkB=0.,kscale=1.):
        P=phi[u]; s.mean=P.mean(0); C=np.cov(P.T); C=C+ridge*np.trace(C)/len(C)*np.eye(len(C))
        val,vec=np.linalg.eigh(C); keep=val>val.max()*1e-6; Wh=vec[:,keep]/np.sqrt(val[keep]); Z=(phi-s.mean)@Wh; q=Z.shape[1]
        n=np.bincount(t,minlength=n_items).astype(float); s.n=n
        rng=np.random.default_rng(seed); fold=rng.integers(F,size=len(phi))[u]
        def eig(B):
            l,a=np.linalg.eigh(B); o=np.argsort(-l); return l[o],a[:,o]
        L=[]
        for f in range(F):
            tr=fold!=f; _,a=eig(pair_scatter(Z,u[tr],t[tr],n_items,cap)); a=a[:,:width]
            # held-out pairs: one from the fold, one from the rest (independent of the axes' noise only on the fold's side), and both from the fold
            Zf=Z@a; SA=np.zeros((n_items,a.shape[1])); SB=SA.copy(); np.add.at(SA,t[tr],Zf[u[tr]]); np.add.at(SB,t[~tr],Zf[u[~tr]])
            nA=np.bincount(t[tr],minlength=n_items); nB=np.bincount(t[~tr],minlength=n_items); ok=(nA>0)&(nB>0); w=np.where(ok,np.minimum(nB,cap/F),0.); w/=w.sum()
            cross=(w[:,None]*SA/np.maximum(nA,1)[:,None]*SB/np.maximum(nB,1)[:,None]).sum(0)
            L.append(cross)
        L=np.array(L); lam=L.mean(0); se=L.std(0,ddof=1)/np.sqrt(F); s.lam_cv=lam; s.se=se
        B=pair_scatter(Z,u,t,n_items,cap); l,a=eig(B); s.lam_in=l[:width]
        good=np.flatnonzero(lam>zmin*se); r=max(1,(good.max()+1) if len(good) else 1); r=min(r,width,q)
        lam=np.minimum.accumulate(np.maximum(lam[:r],1e-4)); s.r=r; s.lam=lam; s.W=Wh@a[:,:r]; s.Z=(phi-s.mean)@s.W; s.k=kscale/s.lam
        s.S=np.zeros((n_items,r)); np.add.at(s.S,t,s.Z[u]); s.e=s.S/(n[:,None]+s.k)
    def z(s,phi): return (phi-s.mean)@s.W
    def place(s,u,t,n_new):
        S=np.zeros((n_new,s.r)); np.add.at(S,t,s.Z[u]); n=np.bincount(t,minlength=n_new).astype(float); return S/(n[:,None]+s.k)
    def folds(s,u,t,fold,F,n_items):
        S=np.zeros((F,n_items,s.r)); np.add.at(S,(fold,t),s.Z[u]); n=np.zeros((F,n_items)); np.add.at(n,(fold,t),1)
        return (S.sum(0)-S)/((n.sum(0)-n)[...,None]+s.k), n.sum(0)-n
