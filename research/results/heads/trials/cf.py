from heads import *
from variants import V
class Axes:
    """Whitened discriminant axes of a feature map, with per-axis shrinkage by reliability.
       z(x) = (phi(x)-mean) W, covariance 1 over exposures; item mean zbar_t has noise 1/n_t per axis, signal lam_c; e_tc = zbar_tc * n/(n+k_c), k_c=1/lam_c."""
    def __init__(s,phi,u,t,n_items,ridge=1e-3,width=16,zmin=2.,seed=0,metric='disc',G=None,kmin=1.):
        P=phi[u]; s.mean=P.mean(0); C=np.cov(P.T)+ridge*np.trace(np.cov(P.T))/phi.shape[1]*np.eye(phi.shape[1])
        val,vec=np.linalg.eigh(C); keep=val>val.max()*1e-6; Wh=vec[:,keep]/np.sqrt(val[keep]); Z=(phi-s.mean)@Wh
        n=np.bincount(t,minlength=n_items).astype(float); s.n=n
        rng=np.random.default_rng(seed)
        def means(Z,u,t): 
            S=np.zeros((n_items,Z.shape[1])); np.add.at(S,t,Z[u]); return S
        S=means(Z,u,t); 
        # signal covariance: between minus noise. Weighted by min(n,50)
        wt=np.minimum(n,200); wt=wt/wt.sum(); M=S/np.maximum(n,1)[:,None]
        # scatter of pairs within an item, without the diagonal: sum_{i!=j} z_i z_j' / (n(n-1))
        ok=n>1; wt2=np.where(ok,np.minimum(n-1,200),0); wt2=wt2/wt2.sum()
        Sq=np.zeros((n_items,Z.shape[1],Z.shape[1])) if Z.shape[1]<=80 else None
        o=np.argsort(t,kind='stable'); ts=t[o]; us=u[o]; pr,st=np.unique(ts,return_index=True); B=np.zeros((Z.shape[1],)*2)
        for a,(tt,i0) in enumerate(zip(pr,st)):
            i1=st[a+1] if a+1<len(pr) else len(ts)
            if i1-i0<2: continue
            z=Z[us[i0:i1]]; k=i1-i0; sm=z.sum(0); B+=wt2[tt]*(np.outer(sm,sm)-z.T@z)/(k*(k-1))
        lam,ax=np.linalg.eigh(B); o=np.argsort(-lam); lam,ax=lam[o],ax[:,o]
        # reliability: noise level of lam under no signal ~ spectrum's negative side
        neg=-lam.min() if lam.min()<0 else 0.
        s.lam_all=lam; r=max(2,int((lam>1.0*neg).sum())); r=min(r,width); s.lam=np.maximum(lam[:r],1e-9); s.W=Wh@ax[:,:r]; s.r=r
        s.Z=(phi-s.mean)@s.W; s.k=np.maximum(1/s.lam,kmin); s.S=means(s.Z,u,t); s.e=s.S/(n[:,None]+s.k)
    def z(s,phi): return (phi-s.mean)@s.W
    def place(s,u,t,n_new): 
        S=np.zeros((n_new,s.r)); np.add.at(S,t,s.Z[u]); n=np.bincount(t,minlength=n_new).astype(float); return S/(n[:,None]+s.k)
    def folds(s,u,t,fold,F,n_items):
        S=np.zeros((F,n_items,s.r)); np.add.at(S,(fold,t),s.Z[u]); n=np.zeros((F,n_items)); np.add.at(n,(fold,t),1)
        return (S.sum(0)-S)/((n.sum(0)-n)[...,None]+s.k), n.sum(0)-n
def quad(X): 
    d=X.shape[1]; i,j=np.triu_indices(d); return np.concatenate([X,X[:,i]*X[:,j]],1)
def phis(kind,w,d,s,cache):
    out=[]; 
    for k in kind.split('+'):
        if (k) not in cache:
            if k=='x': f=lambda X:X
            elif k=='q': f=quad
            elif k.startswith('g'):   # gf9, gd16
                g=gmm_fit(w,int(k[2:]),{'f':'full','d':'diag','t':'tied'}[k[1]],s); f=g.predict_proba
            elif k=='t':   # trunk of softmax towers on x
                mo=fit_towers(d,seed=s,drop=.1)
                def f(X,mo=mo):
                    with torch.no_grad(): return mo.h(torch.from_numpy(np.asarray(X,np.float32))).numpy()
            elif k.startswith('p'):
                H,Wh,tr=pre_embed(d,int(k[1:]),seed=s,batch=256 if d.N<40000 else 1024)
                def f(X,tr=tr):
                    with torch.no_grad(): return tr(torch.from_numpy(np.asarray(X,np.float32))).numpy()
            cache[k]=f
        out.append(cache[k])
    f=lambda X: np.concatenate([o(X) for o in out],1).astype(np.float64)
    return f(w.X),f(w.Xt)
def lin_scores(Zt,e,kind):
    if kind=='lin': return np.log(np.maximum(1+Zt@e.T,0.05))
    if kind=='exp': return Zt@e.T-0.5*(e**2).sum(1)
def linv(kind,form,**kw):
    def run(w,d,s,cache):
        P,Pt=phis(kind,w,d,s,{}); A=Axes(P,d.u.numpy(),d.t.numpy(),d.T,**kw); Zt=A.z(Pt)
        return lin_scores(Zt,A.e,form),lin_scores(Zt,A.place(w.new_u,w.new_t,w.n_new),form),f'r={A.r} k={A.k[0]:.1f}..{A.k[-1]:.1f}'
    return run
for k in ('x','q','gf9','gd16','gf16','gd32','x+gd16','x+gf9','q+gd16','x+gd32','p64','p9999','x+p9999','x+gd16+p9999'):
    for fo in ('lin','exp'): V[f'{fo}_{k}']=linv(k,fo)
# ---------- concat with cross-fitted audiences ----------
class ConcatCF(Concat):
    pass
def gmm_offset(w,d,s,K,cov,alpha,fold,F):
    g=gmm_fit(w,K,cov,s); S=resp(g,w.X); u,t=d.u.numpy(),d.t.numpy(); pop=g.weights_
    pis=np.stack([em_pi(S[u[fold!=f]],t[fold!=f],d.T,pop,alpha,30) for f in range(F)]+[em_pi(S[u],t,d.T,pop,alpha,60)])
    return g,S,pis
def cfv(kind,F=5,ens=1,hidden=(64,64,32),drop=0.,off=None,alpha=10.,width=16,task_rate=0.,bt=None,negs=1,wd=0.,epochs=30,extra_n=False,lr=1e-3,patience=8,scale=True,floor=False,zx=False,resample=False):
    """concat(x, e_t^(-fold)) -> MLP (+ a * g_t^(-fold)(x)), e from audience means of phi, never trained itself"""
    def run(w,d,s,cache):
        P,Pt=phis(kind,w,d,s,cache); u,t=d.u.numpy(),d.t.numpy(); rng=np.random.default_rng(s)
        A=Axes(P,u,t,d.T,width=width); ufold=rng.integers(F,size=len(w.X)); fold=ufold[u]
        E,nf=A.folds(u,t,fold,F,d.T); sc=1/np.sqrt(A.lam[0]*A.lam)**.5 if scale else np.ones(A.r)
        full=A.e; Eall=np.concatenate([E.reshape(F*d.T,-1),full])*sc
        En=A.place(w.new_u,w.new_t,w.n_new)*sc
        if extra_n:
            ln=lambda n: np.log1p(n)[:,None]/3-1.5
            Eall=np.concatenate([Eall,ln(np.concatenate([nf.reshape(-1),A.n]))],1); En=np.concatenate([En,ln(np.bincount(w.new_t,minlength=w.n_new))],1)
        Eall=Eall.astype(np.float32); En=En.astype(np.float32)
        X0,Xt0=d.X,d.Xt
        if zx: 
            zz=A.z(P); sd=zz.std(0); d.X=torch.from_numpy(np.concatenate([w.X,zz/sd],1).astype(np.float32)); d.Xt=torch.from_numpy(np.concatenate([w.Xt,A.z(Pt)/sd],1).astype(np.float32)); d.dim=d.X.shape[1]
        d2=D(); d2.__dict__.update(d.__dict__); d2.t=torch.from_numpy(fold*d.T+t); d2.vt=d.vt+F*d.T; d2.vnt=d.vnt+F*d.T; d2.n=torch.ones(F*d.T+d.T)
        offset=None; gt=gn=0
        if off:
            g,S,pis=gmm_offset(w,d,s,*off,alpha,fold,F); St=resp(g,w.Xt); piall=torch.from_numpy(pis.reshape(-1,pis.shape[-1]).astype(np.float32)); Sf=torch.from_numpy(S.astype(np.float32))
            offset=lambda u,t: torch.log((Sf[u]*piall[t]).sum(1)+1e-6)
            gt=np.log(St@pis[F].T+1e-6); gn=np.log(St@em_pi(S[w.new_u],w.new_t,w.n_new,g.weights_,alpha).T+1e-6)
        fs,fn,info=[],[],[f'r={A.r}']
        B=bt or int(np.clip(d.N/50,128,1024))
        for k in range(ens):
            torch.manual_seed(1000*s+k); m=Concat(d2,Eall,hidden,drop,offset)
            if off: nn.init.zeros_(m.net[-1].weight); nn.init.zeros_(m.net[-1].bias)
            l,be=train(m,d2,batch=B,task_rate=0.,wd=wd,negs=negs,epochs=epochs,lr=lr,patience=patience,floor=floor); a=m.a.item() if off else 0; info.append(f'{l:.4f}/{be}'+(f' a={a:.2f}' if off else ''))
            fs.append(m.matrix(d.Xt,m.E[F*d.T:])+a*gt); fn.append(m.matrix(d.Xt,torch.from_numpy(En))+a*gn)
        d.X,d.Xt,d.dim=X0,Xt0,w.X.shape[1]
        return np.mean(fs,0),np.mean(fn,0),' '.join(info)
    return run
V['cf_gd16']=cfv('gd16'); V['cf_x+gd16']=cfv('x+gd16'); V['cf_p64']=cfv('p64'); V['cf_pall']=cfv('p9999'); V['cf_gf9']=cfv('gf9')
V['cf_q']=cfv('q'); V['cf_x+gd16+p']=cfv('x+gd16+p9999'); V['cf_x+gd16_n']=cfv('x+gd16',extra_n=True)
V['cf_x+gd16_ens3']=cfv('x+gd16',ens=3)
V['cfo_x+gd16']=cfv('x+gd16',off=(16,'diag')); V['cfo_gf9']=cfv('x+gf9',off=(9,'full'))
V['cfz_x+gd16']=cfv('x+gd16',zx=True); V['cfz_x+gd16_ens3']=cfv('x+gd16',zx=True,ens=3); V['cfz_x+gd16_drop']=cfv('x+gd16',zx=True,drop=.1)
V['cfz_gf9']=cfv('x+gf9',zx=True)
