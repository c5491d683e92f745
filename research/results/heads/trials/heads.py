import os; os.environ['OMP_NUM_THREADS']='1'; os.environ['OPENBLAS_NUM_THREADS']='1'; os.environ['MKL_NUM_THREADS']='1'
import numpy as np, time, math, torch, torch.nn as nn, torch.nn.functional as F, warnings; warnings.filterwarnings('ignore')
torch.set_num_threads(1)
from worlds import *
from gmm import em_pi, gmm_fit, resp
from scipy.special import logsumexp

class D: pass
def prep(w,seed=0):
    """torch views of a world's training and validation log"""
    d=D(); d.w=w; d.X=torch.from_numpy(w.X); d.Xt=torch.from_numpy(w.Xt); d.T=w.n_items; d.dim=w.X.shape[1]
    d.u=torch.from_numpy(w.u[w.tr]); d.t=torch.from_numpy(w.t[w.tr]); d.vu=torch.from_numpy(w.u[w.va]); d.vt=torch.from_numpy(w.t[w.va])
    d.N=len(d.u); d.n=torch.bincount(d.t,minlength=d.T).float(); d.m=d.n/d.N
    g=torch.Generator().manual_seed(seed+77); k=4
    d.vn=d.vu[torch.randint(len(d.vu),(len(d.vu)*k,),generator=g)]; d.vnt=d.vt.repeat(k)
    d.gen=torch.Generator().manual_seed(seed)
    return d
def mlp(sizes,drop=0.):
    L=[]
    for a,b in zip(sizes[:-2],sizes[1:-1]):
        L+= [nn.Linear(a,b),nn.ReLU()]+([nn.Dropout(drop)] if drop else [])
    return nn.Sequential(*L,nn.Linear(sizes[-2],sizes[-1]))
def val_loss(f,d):
    with torch.no_grad(): return (F.softplus(-f(d.vu,d.vt)).mean()+F.softplus(f(d.vn,d.vnt)).mean()).item()
# ---------- the pre-embedding model and the learned start ----------
def choose_seeds(d,M0):
    if M0>=d.T: return np.flatnonzero(d.n.numpy()>0)
    from sklearn.cluster import KMeans
    s=torch.zeros(d.T,d.dim).index_add_(0,d.t,d.X[d.u])/(d.n[:,None]+20)
    h=KMeans(M0,n_init=1,random_state=0).fit_predict(s.numpy()); n=d.n.numpy()
    return np.array([max(np.flatnonzero(h==c),key=lambda t:n[t]) for c in range(M0)])
def pre_embed(d,M0=64,epochs=30,batch=1024,lr=1e-3,seed=0,hidden=(64,64,32)):
    torch.manual_seed(seed); seeds=choose_seeds(d,M0); idx=torch.full((d.T,),-1); idx[torch.from_numpy(seeds)]=torch.arange(len(seeds))
    trunk=nn.Sequential(*[l for a,b in zip((d.dim,)+hidden[:-1],hidden) for l in (nn.Linear(a,b),nn.ReLU())]); head=nn.Linear(hidden[-1],len(seeds))
    sel=idx[d.t]>=0; u,t=d.u[sel],idx[d.t[sel]]; vs=idx[d.vt]>=0; vu,vt=d.vu[vs],idx[d.vt[vs]]; vn=d.vn[:len(d.vu)][vs]
    par=[*trunk.parameters(),*head.parameters()]; opt=torch.optim.Adam(par,lr=lr); best=(9e9,None); bad=0; N=len(u); steps=math.ceil(N/batch); k=0
    for ep in range(epochs):
        p=torch.randperm(N,generator=d.gen)
        for i in range(0,N,batch):
            b=p[i:i+batch]; k+=1
            for g in opt.param_groups: g['lr']=lr*0.5*(1+math.cos(math.pi*k/(steps*epochs)))
            neg=d.u[torch.randint(d.N,(len(b),),generator=d.gen)]
            h=head(trunk(torch.cat([d.X[u[b]],d.X[neg]]))); r=torch.arange(len(b)); tt=t[b]
            loss=F.softplus(-h[r,tt]).mean()+F.softplus(h[len(b)+r,tt]).mean()
            opt.zero_grad(); loss.backward(); opt.step()
        with torch.no_grad():
            r=torch.arange(len(vu)); l=(F.softplus(-head(trunk(d.X[vu]))[r,vt]).mean()+F.softplus(head(trunk(d.X[vn]))[r,vt]).mean()).item()
        if l<best[0]: best=(l,[q.detach().clone() for q in par]); bad=0
        else:
            bad+=1
            if bad>=8: break
    for q,v in zip(par,best[1]): q.data.copy_(v)
    with torch.no_grad(): H=trunk(d.X).numpy()
    return H, head.weight.detach().numpy(), trunk
class Start:
    """audience means of a feature map phi -> e; the principal axes of the shrunk means in metric G; cadet's project.rs"""
    def __init__(s,phi_all,u,t,n_items,G,width=16,scale=1.0,prior=10.):
        s.phi=phi_all; s.prior=prior
        S=np.zeros((n_items,phi_all.shape[1])); np.add.at(S,t,phi_all[u]); n=np.bincount(t,minlength=n_items).astype(float)
        s.mean=S.sum(0)/n.sum()
        val,vec=np.linalg.eigh(G); root=(vec*np.sqrt(np.maximum(val,0)))@vec.T
        C=(n/(n+prior))[:,None]*(S/np.maximum(n,1)[:,None]-s.mean); Y=C@root
        val,vec=np.linalg.eigh(Y.T@Y/n_items); o=np.argsort(-val)[:width]; val,vec=val[o],vec[:,o]
        first=math.sqrt(val[0]); spread=np.sqrt(np.maximum(val,first**2*1e-4))
        s.axes=(root@vec)*(scale/np.sqrt(spread*first)); 
        if s.axes.shape[1]<width: s.axes=np.pad(s.axes,((0,0),(0,width-s.axes.shape[1])))
        s.e=(C@s.axes).astype(np.float32)
    def place(s,u,t,n_new):
        S=np.zeros((n_new,s.phi.shape[1])); np.add.at(S,t,s.phi[u]); n=np.bincount(t,minlength=n_new).astype(float)
        return ((n/(n+s.prior))[:,None]*(S/n[:,None]-s.mean)@s.axes).astype(np.float32)
def learned_start(d,M0=64,seed=0,prior=10.,**kw):
    H,Wh,trunk=pre_embed(d,M0,seed=seed,**kw); return Start(H,d.u.numpy(),d.t.numpy(),d.T,Wh.T@Wh,prior=prior)
# ---------- the concat net ----------
class Concat(nn.Module):
    def __init__(s,d,e,hidden=(64,64,32),drop=0.,offset=None):
        super().__init__(); s.d=d; s.E=nn.Parameter(torch.from_numpy(e.copy())); s.net=mlp((d.dim+e.shape[1],)+tuple(hidden)+(1,),drop)
        s.fixed=None; s.off=offset; s.a=nn.Parameter(torch.ones(1)) if offset is not None else None
    def forward(s,u,t):
        e=s.E[t] if s.fixed is None else s.fixed[t]+s.E[t%s.d.T]
        f=s.net(torch.cat([s.d.X[u],e],1))[:,0]
        if s.off is not None: f=f+s.a*s.off(u,t)
        if hasattr(s,'off2'): f=f+s.b*s.off2(u,t)
        return f
    def matrix(s,X,E):
        with torch.no_grad():
            s.eval(); W,b=s.net[0].weight,s.net[0].bias; k=X.shape[1]; A=X@W[:,:k].T+b; B=E@W[:,k:].T; out=[]
            for e in B: out.append(s.net[1:](A+e)[:,0])
            s.train(); return torch.stack(out,1).numpy()
def train(model,d,epochs=30,batch=1024,lr=1e-3,task_rate=0.1,patience=8,wd=0.,edecay=0.,negs=1,start=None,sm=0.,floor=False):
    """wd: AdamW on the net; edecay: lambda/n_t |e_t - 0|^2 per exposure met; sm: weight of an in-batch 'which item' term"""
    net=[p for n,p in model.named_parameters() if n!='E']
    groups=[dict(params=net,weight_decay=wd,base=lr)]
    if task_rate>0: groups.append(dict(params=[model.E],weight_decay=0.,base=lr*task_rate))
    else: model.E.requires_grad_(False)
    opt=torch.optim.AdamW(groups,lr=lr); N=d.N; steps=math.ceil(N/batch); k=0
    best=(val_loss(model,d) if floor else 9e9,{n:p.detach().clone() for n,p in model.named_parameters()}); bad=0; be=0
    inv=1/d.n.clamp(min=1)
    for ep in range(epochs):
        p=torch.randperm(N,generator=d.gen); model.train()
        for i in range(0,N,batch):
            b=p[i:i+batch]; k+=1; B=len(b)
            for g in opt.param_groups: g['lr']=g['base']*0.5*(1+math.cos(math.pi*k/(steps*epochs)))
            u,t=d.u[b],d.t[b]; neg=d.u[torch.randint(N,(B*negs,),generator=d.gen)]
            f=model(torch.cat([u,neg]),torch.cat([t,t.repeat(negs)]))
            loss=F.softplus(-f[:B]).mean()+F.softplus(f[B:]).mean()
            if edecay: tt=t%d.T; loss=loss+edecay*(inv[tt][:,None]*model.E[tt]**2).sum()/B
            if hasattr(model,'pen'): loss=loss+model.pen(N)
            opt.zero_grad(); loss.backward(); opt.step()
        model.eval(); l=val_loss(model,d)
        if l<best[0]-1e-6: best=(l,{n:q.detach().clone() for n,q in model.named_parameters()}); bad=0; be=ep+1
        else:
            bad+=1
            if bad>=patience: break
    for n,q in model.named_parameters(): q.data.copy_(best[1][n])
    model.eval(); return best[0],be
# ---------- exact softmax over items: towers and learned mixtures ----------
class Towers(nn.Module):
    """r_t(x) = h(x).e_t + b_t - log sum_s m_s exp(h(x).e_s + b_s); maximum likelihood of 'which item'"""
    def __init__(s,d,k=16,hidden=(64,64),seed=0,drop=0.,e=None):
        super().__init__(); torch.manual_seed(seed); s.h=mlp((d.dim,)+tuple(hidden)+(k,),drop); s.E=nn.Parameter(torch.randn(d.T,k)*0.1 if e is None else torch.from_numpy(e.copy())); s.b=nn.Parameter(torch.zeros(d.T)); s.lm=d.m.clamp(min=1e-9).log()
    def raw(s,X,E,b): return s.h(X)@E.T+b
    def logits(s,X): r=s.raw(X,s.E,s.b); return r-torch.logsumexp(r+s.lm,1,keepdim=True)
    def place(s,X,t,n_new,lam,it=200):
        E=torch.zeros(n_new,s.E.shape[1],requires_grad=True)
        b=torch.zeros(n_new,requires_grad=True)
        with torch.no_grad(): H=s.h(X); Z=torch.logsumexp(H@s.E.T+s.b+s.lm,1)
        n=torch.bincount(t,minlength=n_new).float(); return E,b,H,Z,n
class Mix(nn.Module):
    """r_t(x)=log sum_j pi_tj P(j|x)/P(j)"""
    def __init__(s,d,J=16,hidden=(64,64),seed=0,drop=0.): 
        super().__init__(); torch.manual_seed(seed); s.h=mlp((d.dim,)+tuple(hidden)+(J,),drop)
def fit_towers(d,k=16,hidden=(64,64),lam=1.,wd=1e-4,lr=2e-3,erate=1.,epochs=30,batch=512,patience=6,seed=0,drop=0.,e=None,lamb=None):
    mo=Towers(d,k,hidden,seed,drop,e); base=[lr,lr*erate]
    opt=torch.optim.AdamW([dict(params=mo.h.parameters(),weight_decay=wd),dict(params=[mo.E,mo.b],weight_decay=0.)],lr=lr)
    N=d.N; steps=math.ceil(N/batch); kk=0; best=(9e9,None); bad=0; be=0; inv=1/d.n.clamp(min=1)
    for ep in range(epochs):
        mo.train(); p=torch.randperm(N,generator=d.gen)
        for i in range(0,N,batch):
            b=p[i:i+batch]; kk+=1; c=0.5*(1+math.cos(math.pi*kk/(steps*epochs)))
            for g,l0 in zip(opt.param_groups,base): g['lr']=l0*c
            t=d.t[b]; L=mo.logits(d.X[d.u[b]]); loss=-L[torch.arange(len(b)),t].mean()+lam/N*(mo.E**2).sum()+(lamb if lamb is not None else lam)/N*(mo.b**2).sum()
            opt.zero_grad(); loss.backward(); opt.step()
        mo.eval()
        with torch.no_grad(): l=-mo.logits(d.X[d.vu])[torch.arange(len(d.vu)),d.vt].mean().item()
        if l<best[0]: best=(l,{n:q.clone() for n,q in mo.state_dict().items()}); bad=0; be=ep+1
        else:
            bad+=1
            if bad>=patience: break
    mo.load_state_dict(best[1]); mo.eval(); mo.be=be; mo.vl=best[0]; return mo
def place_towers(mo,X,t,n_new,lam,it=150):
    with torch.no_grad(): H=mo.h(X); Z=torch.logsumexp(H@mo.E.T+mo.b+mo.lm,1)
    # new item: maximise sum_i [h.e+b - Z_i] - n*log mean_{x~p} exp(h.e+b-Z) - lam(|e|^2+b^2) (q_t normalised over the population)
    return H,Z
def em_mixture(d,J=16,hidden=(64,64),alpha=10.,lr=2e-3,wd=1e-4,epochs=30,batch=512,patience=6,seed=0,init=None,drop=0.,inner=1,piup=None):
    """P(t|x)/m_t = sum_j pi_tj P(j|x)/P(j): EM for pi with Dirichlet prior alpha*P(j), gradient for the trunk; once an epoch pi is renewed.
       init: responsibilities (U,J) of a shared GMM to start the trunk from"""
    torch.manual_seed(seed); h=mlp((d.dim,)+tuple(hidden)+(J,),drop); opt=torch.optim.AdamW(h.parameters(),lr=lr,weight_decay=wd)
    N=d.N; steps=math.ceil(N/batch); kk=0; best=(9e9,None); bad=0; be=0; un=torch.unique(d.u)
    if init is not None:
        o2=torch.optim.Adam(h.parameters(),lr=3e-3); I=torch.from_numpy(init.astype(np.float32))
        for s_ in range(600):
            b=d.u[torch.randint(N,(512,),generator=d.gen)]; l=-(I[b]*F.log_softmax(h(d.X[b]),1)).sum(1).mean(); o2.zero_grad(); l.backward(); o2.step()
    def trunk(X):
        with torch.no_grad(): return F.softmax(h(X),1)
    P=trunk(d.X)
    if init is None:
        from sklearn.cluster import KMeans
        S=torch.zeros(d.T,d.dim).index_add_(0,d.t,d.X[d.u])/(d.n[:,None]+20)
    pj=P[d.u].mean(0); pi=pj.repeat(d.T,1)*(1+0.5*(torch.rand(d.T,J,generator=d.gen)-.5)) if init is None else pj.repeat(d.T,1); pi=pi/pi.sum(1,keepdim=True)
    def estep(P,pi,pj,its):
        for _ in range(its):
            R=pi[d.t]*(P/pj)[d.u]; R/=R.sum(1,keepdim=True); C=torch.zeros(d.T,J).index_add_(0,d.t,R)
            pj=C.sum(0)/N; pi=(C+alpha*pj)/(d.n[:,None]+alpha)
        return pi,pj
    if init is not None: pi,pj=estep(P,pi,pj,20)
    def vl(P,pi,pj): return -torch.log((pi[d.vt]*(P/pj)[d.vu]).sum(1)).mean().item()
    for ep in range(epochs):
        h.train(); p=torch.randperm(N,generator=d.gen); lpi=(pi/pj).log()
        for i in range(0,N,batch):
            b=p[i:i+batch]; kk+=1
            for g in opt.param_groups: g['lr']=lr*0.5*(1+math.cos(math.pi*kk/(steps*epochs)))
            loss=-torch.logsumexp(F.log_softmax(h(d.X[d.u[b]]),1)+lpi[d.t[b]],1).mean()
            opt.zero_grad(); loss.backward(); opt.step()
        h.eval(); P=trunk(d.X); pi,pj=estep(P,pi,pj,3)
        l=vl(P,pi,pj)
        if l<best[0]: best=(l,({n:q.clone() for n,q in h.state_dict().items()},pi.clone(),pj.clone())); bad=0; be=ep+1
        else:
            bad+=1
            if bad>=patience: break
    h.load_state_dict(best[1][0]); pi,pj=best[1][1:]; h.eval(); P=trunk(d.X); pi,pj=estep(P,pi,pj,10)
    m=D(); m.h=h; m.pi=pi; m.pj=pj; m.s=lambda X: trunk(X)/pj; m.vl=best[0]; m.be=be
    return m
# ---------- measures ----------
def normalise(f,m): return f-logsumexp(f+np.log(np.maximum(m,1e-12)),axis=1,keepdims=True)
def measure(f,w,m,f_new=None):
    o={}
    c=cor_items(f,w.r); o['cor']=c.mean(); o['rmse']=np.sqrt(((f-w.r)**2).mean())
    c2=cor_items(normalise(f,m),w.r); o['corN']=c2.mean(); o['rmseN']=np.sqrt(((normalise(f,m)-w.r)**2).mean())
    big=w.n>1000; o['big']=c2[big].mean() if big.any() else np.nan
    small=w.n<100; o['small']=c2[small].mean() if small.any() else np.nan
    if f_new is not None:
        o['new']=cor_items(f_new,w.r_new).mean(); g=f_new-logsumexp(f+np.log(np.maximum(m,1e-12)),axis=1,keepdims=True); o['newN']=cor_items(g,w.r_new).mean()
    return o
